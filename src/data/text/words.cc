#include "src/data/text/words.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/data/text/unicode.h"

namespace lockstep {
namespace {

char32_t decode(std::string_view text, std::size_t i, std::size_t length) {
  constexpr unsigned kMasks[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  char32_t c = static_cast<unsigned char>(text[i]) & kMasks[length];
  for (std::size_t k = 1; k < length; ++k)
    c = c << 6 | (static_cast<unsigned char>(text[i + k]) & 0x3F);
  return c;
}

/// The bytes of the character at `i`; 0: they are not UTF-8.
std::size_t length_at(std::string_view text, std::size_t i) {
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};  // others are longer than needed
  const auto first = static_cast<unsigned char>(text[i]);
  if (first < 0x80) return 1;
  // These rules refuse all bytes that The Unicode Standard, table 3-7, does not list. So one
  // character has one form.
  const std::size_t length = 2 + (first >= 0xE0) + (first >= 0xF0);
  if (first < 0xC2 || first > 0xF4 || text.size() - i < length) return 0;
  for (const char next : text.substr(i + 1, length - 1))
    if ((next & 0xC0) != 0x80) return 0;
  const char32_t c = decode(text, i, length);
  const bool surrogate = c >= 0xD800 && c < 0xE000;
  return c < kLeast[length] || surrogate || c > 0x10FFFF ? 0 : length;
}

void append(std::string& word, char32_t c) {
  constexpr char32_t kMarks[] = {0, 0xC0, 0xE0, 0xF0};
  int left = (c >= 0x80) + (c >= 0x800) + (c >= 0x10000);  // bytes after the first
  word += static_cast<char>(kMarks[left] | c >> 6 * left);
  while (left-- > 0) word += static_cast<char>(0x80 | (c >> 6 * left & 0x3F));
}

}  // namespace

std::size_t invalid_utf8(std::string_view text) {
  for (std::size_t i = 0, length = 0; i < text.size(); i += length) {
    length = length_at(text, i);
    if (length == 0) return i;
  }
  return text.npos;
}

std::string excerpt_of(std::string_view text, std::int64_t most) {
  std::size_t end = 0;
  for (; end < text.size() && most > 0; --most)
    end += std::max<std::size_t>(length_at(text, end), 1);
  end = std::min(end, text.size());
  std::string line(text.substr(0, end));
  for (char& c : line)
    if (c == '\n' || c == '\r' || c == '\t') c = ' ';
  return one_line(line) + (end < text.size() ? "..." : "");
}

void for_each_word(std::string_view text, const std::function<void(std::string_view)>& each) {
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) each(word);
    word.clear();
  };
  for (std::size_t i = 0, length = 0; i < text.size(); i += length) {
    length = length_at(text, i);
    expect(length > 0, "a text is checked before its words are read");
    const char32_t c = decode(text, i, length);
    const bool alone = is_word_alone(c);
    if (alone || !is_word_part(c)) end_word();
    if (is_word_part(c)) append(word, small_letter(c));
    if (alone) end_word();
  }
  end_word();
}

Vocabulary::Vocabulary(std::vector<std::string> words) : words_(std::move(words)) {
  std::int32_t number = kFirst;
  for (const std::string& word : words_) numbers_.emplace(word, number++);
}

Vocabulary Vocabulary::of(const std::vector<std::string_view>& texts, std::size_t most) {
  std::unordered_map<std::string, std::int64_t> counts;
  for (const std::string_view text : texts)
    for_each_word(text, [&](std::string_view word) { ++counts[std::string(word)]; });
  std::vector<std::pair<std::int64_t, std::string>> order;
  // The order of a hash map differs between C++ libraries, so all words are sorted.
  for (const auto& [word, count] : counts) order.emplace_back(-count, word);
  std::ranges::sort(order);
  order.resize(std::min(order.size(), most));
  std::vector<std::string> words;
  for (auto& [count, word] : order) words.push_back(std::move(word));
  return Vocabulary(std::move(words));
}

Vocabulary Vocabulary::from(std::string_view lines) {
  require(!lines.empty(), "the checkpoint contains no vocabulary. Use another checkpoint.");
  return Vocabulary(lines_of(lines));
}

std::string Vocabulary::text() const { return fmt::format("{}", fmt::join(words_, "\n")); }

std::vector<std::int32_t> Vocabulary::numbers(std::string_view text, std::int64_t length) const {
  std::vector<std::int32_t> numbers{kStart};
  for_each_word(text, [&](std::string_view word) {
    const auto found = numbers_.find(std::string(word));
    numbers.push_back(found == numbers_.end() ? kUnknown : found->second);
  });
  const auto excess = std::ssize(numbers) - length;
  // As pad_sequences() of Keras cuts and pads by default.
  if (excess > 0) numbers.erase(numbers.begin(), numbers.begin() + excess);
  if (excess < 0) numbers.insert(numbers.begin(), -excess, kPadding);
  return numbers;
}

}  // namespace lockstep
