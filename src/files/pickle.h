// Pickles of Python, read as data: no class is looked up and no function is called. A call that the
// pickle asks for becomes a value that names the function.
// Format: Lib/pickletools.py of CPython. Protocols 2 to 5 are read, which write only these values.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct PickleValue {
  enum class Kind : std::uint8_t {
    none,
    truth,      ///< number: 0 or 1
    number,     ///< a whole number of 64 bits
    text,       ///< also a byte string of Python 2
    list,       ///< a list or a tuple
    dict,       ///< also an OrderedDict; items: key, value, key, value, ...
    name,       ///< of a class or a function; text: "torch.FloatStorage"
    object,     ///< what a call of `function` would return; items: its arguments
    reference,  ///< to data outside; items: its identification
    other,      ///< a float, bytes, a set, a larger number
  };
  Kind kind = Kind::none;
  std::int64_t number = 0;
  std::string text;
  std::vector<const PickleValue*> items;  ///< not null; a list or dict may contain itself
  const PickleValue* function = nullptr;  ///< of an object: not null

  bool is(Kind other) const { return kind == other; }
  /// The function or class that makes an object: "torch._utils._rebuild_tensor_v2"; empty: no
  /// object.
  std::string_view class_name() const;
  /// The value of a text in a dict; null: there is none, or this is no dict.
  const PickleValue* find(std::string_view key) const;
};

/// Owns its values. Memory is at most about 500 MB. Neither copied nor moved. One thread.
class Pickle {
 public:
  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 25;
  static constexpr std::int64_t kMostValues = 2'000'000;

  /// Reads the pickle with which `bytes` begin. Throws Error, without a file's name, if it is
  /// damaged, of another protocol or beyond the limits.
  explicit Pickle(std::string_view bytes);
  Pickle(const Pickle&) = delete;

  const PickleValue& value() const { return *value_; }
  /// Every value that was made, in order.
  const std::deque<PickleValue>& values() const { return values_; }
  std::uint64_t size() const { return size_; }  ///< bytes of the pickle

 private:
  std::deque<PickleValue> values_;
  const PickleValue* value_ = nullptr;
  std::uint64_t size_ = 0;
};

}  // namespace lockstep
