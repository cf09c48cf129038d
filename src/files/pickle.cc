#include "src/files/pickle.h"

#include <algorithm>
#include <unordered_map>

#include "src/base/check.h"
#include "src/files/number_at.h"

namespace lockstep {
namespace {

// A pickle is a program for a machine with a stack and a memory of repeated values. Each row of
// kInstructions is one instruction, and PickleReader is the machine.
//
// A file may come from anywhere, and a few of its bytes can ask for much memory. So every value,
// item, mark and repeated value is counted by spend(). Values refer to each other and are not
// copied. Otherwise a list that contains another one twice would double with each level.
constexpr std::size_t kLongestName = 256;

using Kind = PickleValue::Kind;
using Values = std::vector<const PickleValue*>;

/// The bytes of a pickle, its values, the stack of those that its instructions take, and those that
/// it repeats.
class PickleReader {
 public:
  PickleReader(std::string_view bytes, std::deque<PickleValue>& values)
      : bytes_(bytes.substr(0, Pickle::kMostBytes)), values_(values) {}

  /// Counts what memory is for.
  void spend(std::size_t count) {
    left_ -= count;
    require(left_ >= 0, "it has more than {} values", Pickle::kMostValues);
  }
  void mark() {
    spend(1);
    marks_.push_back(stack_.size());
  }
  PickleValue& push(Kind kind, std::int64_t number = 0) {
    spend(1);
    PickleValue& value = values_.emplace_back();
    value.kind = kind;
    value.number = number;
    stack_.push_back(&value);
    return value;
  }
  // The value is counted before its items, which extend() counts.
  void push(Kind kind, const Values& items) {
    push(kind);
    extend(kind, items);
  }
  /// Appends to the last value if it is of this kind. Objects of other classes have such
  /// instructions too, and their contents are skipped.
  void extend(Kind kind, const Values& items) {
    PickleValue& value = top();
    require(kind != Kind::dict || items.size() % 2 == 0, "a key has no value");
    if (!value.is(kind) || kind == Kind::other) return;
    spend(items.size());
    value.items.insert(value.items.end(), items.begin(), items.end());
  }

  /// The last value, of those after the last mark.
  PickleValue& top() const {
    // Values below the last mark belong to an instruction that is still to come.
    require(stack_.size() > (marks_.empty() ? 0 : marks_.back()), "a value is missing");
    return *stack_.back();
  }
  const PickleValue* pop() {
    const PickleValue* value = &top();
    stack_.pop_back();
    return value;
  }
  Values pop(std::size_t count) {
    Values values(count);
    for (; count > 0; --count) values[count - 1] = pop();
    return values;
  }
  /// Removes the last mark and the values after it.
  Values pop_to_mark() {
    require(!marks_.empty(), "a mark is missing");
    Values values(stack_.begin() + marks_.back(), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return values;
  }

  std::uint64_t place() const { return place_; }
  std::string_view take(std::uint64_t count) {
    require(count <= bytes_.size() - place_, "it ends within a value, or is longer than {} bytes",
            Pickle::kMostBytes);
    place_ += count;
    return bytes_.substr(place_ - count, count);
  }
  template <class Number>
  Number number() {
    return number_at<Number>(take(sizeof(Number)), 0);
  }
  std::string_view line() {
    const std::size_t length = std::min(bytes_.find('\n', place_), bytes_.size()) - place_;
    return take(length + 1).substr(0, length);
  }

  /// A number of `count` bytes in two's complement.
  void push_long(std::uint64_t count) {
    const std::string_view digits = take(count);
    std::uint64_t value = 0;
    // No count, place or extent of a tensor needs more.
    if (count > sizeof value) {
      push(Kind::other);
      return;
    }
    for (std::size_t i = 0; i < digits.size(); ++i)
      value |= std::uint64_t{static_cast<unsigned char>(digits[i])} << (8 * i);
    const bool negative = !digits.empty() && static_cast<signed char>(digits.back()) < 0;
    if (negative && count < sizeof value) value |= ~std::uint64_t{0} << (8 * count);
    push(Kind::number, value);
  }
  void push_text(std::uint64_t count) {
    const std::string_view text = take(count);
    push(Kind::text).text = text;
  }
  void push_bytes(std::uint64_t count) {
    take(count);
    push(Kind::other);
  }
  void push_name(std::string_view module, std::string_view name) {
    // A name is a copy of texts that a pickle can repeat for few bytes, so its length is limited.
    require(module.size() + name.size() <= kLongestName, "the name of a class is too long");
    push(Kind::name).text = fmt::format("{}.{}", module, name);
  }
  /// `values`: the function, and a list of the arguments.
  void push_call(const Values& values) {
    const Values& arguments = values[1]->items;
    // A state_dict is an OrderedDict: a call, to whose result instructions for dicts add the
    // weights.
    if (values[0]->text != "collections.OrderedDict") {
      PickleValue& object = push(Kind::object);
      object.function = values[0];
      object.items = arguments;
      spend(arguments.size());
      return;
    }
    push(Kind::dict);
    if (arguments.empty()) return;
    for (const PickleValue* pair : arguments[0]->items)  // Python 2 lists the pairs
      extend(Kind::dict, pair->items);
  }

  void remember(std::uint64_t key) {
    spend(1);
    memo_[key] = &top();
  }
  void remember_next() { remember(memo_.size()); }
  // It makes no value, so it is not counted. The stack grows by one pointer for two bytes of the
  // pickle.
  void recall(std::uint64_t key) {
    const auto found = memo_.find(key);
    require(found != memo_.end(), "it repeats a value that it does not have");
    stack_.push_back(found->second);
  }

 private:
  std::string_view bytes_;
  std::uint64_t place_ = 0;
  std::deque<PickleValue>& values_;
  std::int64_t left_ = Pickle::kMostValues;
  std::vector<PickleValue*> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, PickleValue*> memo_;
};

using R = PickleReader;
using U8 = std::uint8_t;
using U32 = std::uint32_t;
using U64 = std::uint64_t;

struct Instruction {
  unsigned char code;
  void (*run)(R& r);
};

/// All of protocols 2 to 5 that Python writes, except the end ('.').
constexpr Instruction kInstructions[] = {
    {0x80, [](R& r) { require(r.number<U8>() <= 5, "its protocol is newer than 5"); }},
    {0x95, [](R& r) { r.take(sizeof(U64)); }},  // FRAME, a hint
    // Values
    {'N', [](R& r) { r.push(Kind::none); }},
    {0x88, [](R& r) { r.push(Kind::truth, 1); }},
    {0x89, [](R& r) { r.push(Kind::truth, 0); }},
    {'J', [](R& r) { r.push(Kind::number, r.number<std::int32_t>()); }},
    {'K', [](R& r) { r.push(Kind::number, r.number<U8>()); }},
    {'M', [](R& r) { r.push(Kind::number, r.number<std::uint16_t>()); }},
    {0x8a, [](R& r) { r.push_long(r.number<U8>()); }},
    {0x8b, [](R& r) { r.push_long(r.number<U32>()); }},
    {'G', [](R& r) { r.push_bytes(sizeof(double)); }},
    {'U', [](R& r) { r.push_text(r.number<U8>()); }},
    {'T', [](R& r) { r.push_text(r.number<U32>()); }},
    {0x8c, [](R& r) { r.push_text(r.number<U8>()); }},
    {'X', [](R& r) { r.push_text(r.number<U32>()); }},
    {0x8d, [](R& r) { r.push_text(r.number<U64>()); }},
    {'C', [](R& r) { r.push_bytes(r.number<U8>()); }},
    {'B', [](R& r) { r.push_bytes(r.number<U32>()); }},
    {0x8e, [](R& r) { r.push_bytes(r.number<U64>()); }},
    {0x96, [](R& r) { r.push_bytes(r.number<U64>()); }},
    // Containers
    {'(', [](R& r) { r.mark(); }},
    {')', [](R& r) { r.push(Kind::list); }},
    {0x85, [](R& r) { r.push(Kind::list, r.pop(1)); }},
    {0x86, [](R& r) { r.push(Kind::list, r.pop(2)); }},
    {0x87, [](R& r) { r.push(Kind::list, r.pop(3)); }},
    {'t', [](R& r) { r.push(Kind::list, r.pop_to_mark()); }},
    {']', [](R& r) { r.push(Kind::list); }},
    {'a', [](R& r) { r.extend(Kind::list, r.pop(1)); }},
    {'e', [](R& r) { r.extend(Kind::list, r.pop_to_mark()); }},
    {'}', [](R& r) { r.push(Kind::dict); }},
    {'s', [](R& r) { r.extend(Kind::dict, r.pop(2)); }},
    {'u', [](R& r) { r.extend(Kind::dict, r.pop_to_mark()); }},
    {0x8f, [](R& r) { r.push(Kind::other); }},  // sets
    {0x90, [](R& r) { r.extend(Kind::other, r.pop_to_mark()); }},
    {0x91, [](R& r) { r.push(Kind::other, r.pop_to_mark()); }},
    // Classes, functions and calls
    {'c',
     [](R& r) {
       const std::string_view module = r.line();
       r.push_name(module, r.line());
     }},
    {0x93,
     [](R& r) {
       const Values names = r.pop(2);
       r.push_name(names[0]->text, names[1]->text);
     }},
    {'R', [](R& r) { r.push_call(r.pop(2)); }},
    {0x81, [](R& r) { r.push_call(r.pop(2)); }},
    {0x92, [](R& r) { r.push_call(r.pop(3)); }},  // the last are arguments by name
    {'b', [](R& r) { r.pop(); }},                 // attributes
    {'Q', [](R& r) { r.push(Kind::reference, r.pop(1)); }},
    // Repeated values
    {'q', [](R& r) { r.remember(r.number<U8>()); }},
    {'r', [](R& r) { r.remember(r.number<U32>()); }},
    {0x94, [](R& r) { r.remember_next(); }},
    {'h', [](R& r) { r.recall(r.number<U8>()); }},
    {'j', [](R& r) { r.recall(r.number<U32>()); }}};

}  // namespace

std::string_view PickleValue::class_name() const {
  return is(Kind::object) ? std::string_view(function->text) : std::string_view();
}

const PickleValue* PickleValue::find(std::string_view key) const {
  for (std::size_t i = 0; is(Kind::dict) && i < items.size(); i += 2)
    if (items[i]->is(Kind::text) && items[i]->text == key) return items[i + 1];
  return nullptr;
}

Pickle::Pickle(std::string_view bytes) {
  PickleReader reader(bytes, values_);
  for (unsigned char code = 0; (code = reader.number<U8>()) != '.';) {
    const auto* known = std::ranges::find_if(
        kInstructions, [&](const Instruction& one) { return one.code == code; });
    require(known != std::end(kInstructions), "instruction {:#04x} is not of protocols 2 to 5",
            code);
    known->run(reader);
  }
  value_ = reader.pop();
  size_ = reader.place();
}

}  // namespace lockstep
