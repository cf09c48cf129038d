// OptionSet: the options of a program, from its command line and from a config file, with values
// held to what they must be. What CLI11 finds on the command line it hands on as it stands.
#pragma once

#include <CLI/CLI.hpp>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "apps/options/config_file.h"

namespace lockstep {

/// What a number may be: [low, high], or (low, high] where `open`.
struct Bounds {
  double low = 0, high = 0x1p64;  ///< 2^64: above all seeds
  bool open = false;

  static Bounds at_least(double low, double high = 0x1p64) { return {low, high, false}; }
  static Bounds above_zero(double high = 0x1p64) { return {0, high, true}; }
};

/// Seconds that any of the program's clocks can count: 31 years.
inline constexpr double kLongestTime = 1e9;

/// `text` as a number of type T (int, std::int64_t, std::uint64_t, float, double) written in plain
/// decimals: 7, -1, 0.1, .5, 1e-4; not 010, 0x10, 1_000, +5, " 5", inf or nan. Throws the usage
/// error that begins with `name`.
template <class T>
T parse_number(const std::string& name, const std::string& text, const Bounds& range);

/// A check for OptionSet::text().
std::function<void(const std::string&)> one_of(const char* name, std::vector<std::string> words);

class OptionSet {
  struct Entry;

 public:
  /// What else is said of an option where it is declared.
  class Declared {
   public:
    explicit Declared(Entry& entry) : entry_(entry) {}
    /// A run that goes on with another value is no longer the same run.
    Declared& shapes_weights();
    /// It has a meaning only where `applies`: elsewhere it is no part of to_text().
    Declared& only_where(std::function<bool()> applies);

   private:
    Entry& entry_;
  };

  explicit OptionSet(CLI::App& app) : app_(app) {}
  OptionSet(const OptionSet&) = delete;
  OptionSet& operator=(const OptionSet&) = delete;

  /// Those that follow stand under this heading of the help.
  void group(const std::string& name) { group_ = name; }
  /// Never empty, and without control characters. A path may begin with "~" (home_path()). `check`
  /// throws where the word is none of the known ones.
  Declared text(const std::string& name, std::string& value, const char* type,
                const std::string& about, std::function<void(const std::string&)> check = {});
  /// One text for each time that it is given; in a file, an array of them.
  Declared list(const std::string& name, std::vector<std::string>& values, const char* type,
                const std::string& about, std::function<void(const std::string&)> check = {});
  template <class T>
  Declared number(const std::string& name, T& value, const Bounds& range,
                  const std::string& about) {
    return add_number(name, value, range, about, /*optional=*/false);
  }
  /// The same where 0 stands for a default that the text names in brackets.
  template <class T>
  Declared optional_number(const std::string& name, T& value, const Bounds& range,
                           const std::string& about) {
    return add_number(name, value, range, about, /*optional=*/true);
  }
  Declared flag(const std::string& name, bool& value, const std::string& about);
  /// A word or a number that `read` turns into a value, and `show` back.
  Declared word(const std::string& name, std::function<void(const std::string&)> read,
                std::function<std::string()> show, const char* type, const std::string& about);

  /// Takes from `file` what the command line has not said. Throws the usage error with file, line
  /// and column.
  void read_file(const std::string& file);

  /// Takes "name = value, name = value" for what neither the command line nor the file has said,
  /// but for names that `leave_out`.
  void preset(std::string_view recipe, const std::function<bool(std::string_view name)>& leave_out);

  /// By preset().
  bool is_preset(std::string_view name) const;
  /// On the command line or in the file.
  bool given(std::string_view name) const;
  /// "--steps", or "--steps (run.toml:3:9)" where the file says it: for errors.
  std::string where(std::string_view name) const;
  /// All options with values as lines "name=value": TOML, which read_file() takes. What is not
  /// UTF-8 is a comment there.
  std::string to_text() const;
  /// The value that option `name` has now is what it is where nobody says another.
  void is_usual(std::string_view name);
  /// All that shape the weights, without --, and what to_text() says of each where nobody says
  /// anything; empty: nothing.
  std::map<std::string, std::string> shaping() const;

 private:
  enum class Type { text, whole, number, flag, word, list };
  struct Entry {
    std::string name;  // without --
    Type type = Type::text;
    CLI::Option* option = nullptr;
    std::function<void(const std::string&)> set;  // throws the usage error; of a list: lines
    std::function<std::string()> show;            // empty: not set
    std::string usual;                            // what show() says where nobody says another
    std::string place;                            // in the file, where that says it
    bool preset = false;
    bool shapes_weights = false;
    std::function<bool()> applies;  // empty: always
  };

  template <class T>
  Declared add_number(const std::string& name, T& value, const Bounds& range,
                      const std::string& about, bool optional);
  Declared add(const std::string& option, Type type, std::function<void(const std::string&)> set,
               std::function<std::string()> show, const char* value, const std::string& about);
  const Entry* find(std::string_view name) const;
  /// `value` of `entry` as to_text() has it.
  static std::string toml(const Entry& entry, const std::string& value);

  CLI::App& app_;
  std::string group_;
  std::deque<Entry> entries_;  // whose addresses CLI11's callbacks keep
};

/// Throws the usage error where a word of the command line is what CLI11 would not take as it
/// stands: an empty one, "[...]", which it takes apart as a list, or one that no line can show.
void check_words(int argc, char** argv);

}  // namespace lockstep
