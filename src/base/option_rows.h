// OptionRows: the options of a program as rows of name, help and value. Each struct of options lies
// beside the code that it configures and declares one row per member. apps/options parses them.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "src/base/table.h"
#include "src/base/view.h"

namespace lockstep {

/// The range of a number: [low, high], or (low, high] if `open`.
struct Bounds {
  double low = 0, high = 0x1p64;  ///< 2^64: above all seeds
  bool open = false;

  /// "from 0 to 1"
  std::string text() const;

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

using CheckWord = std::function<void(const std::string&)>;

/// A check for OptionRows::text().
CheckWord one_of(const std::string& name, std::vector<std::string> words);

/// `path` with $HOME for a leading "~". A shell expands "~" neither in a config file nor in quotes
/// nor after "=". Throws the usage error, which begins with `option`, if HOME is not set, and for
/// the "~name" of another user.
std::string home_path(std::string_view option, const std::string& path);

struct OptionRow {
  enum class Type { text, whole, number, flag, word, list };
  /// The source of the value.
  enum class Source { initial, recipe, file, command_line };
  struct Exclusion {
    std::string option, what;  ///< what both set; empty: they do not work together
  };
  struct Condition {
    std::string option;           ///< "--lr-schedule cosine or linear"
    std::function<bool()> holds;  ///< empty: `option` differs from its default
    bool against = false;         ///< the row has no effect if `option` is set and holds()
  };

  std::string name;  ///< "--lr"; without dashes: a word of the command line that is no option
  Type type = Type::text;
  std::string value;  ///< the placeholder in the help: "DIR"
  /// A noun phrase of at most 12 words. A default that `by_default` does not show follows in
  /// brackets. Sentences that only the full help prints follow after a line end.
  std::string about;
  std::string group;  ///< the heading in the help
  CheckWord read;     ///< reads a value, or the lines of a list; throws the usage error
  std::function<std::string()> show;  ///< returns "" if the option is not set
  std::string by_default;             ///< the default, as show() returns it
  std::string of_recipe = {};         ///< for the help: what a recipe sets instead; empty: nothing
  Source source = Source::initial;
  std::string place = {};  ///< "run.toml:3" if the config file sets it
  std::string range = {};  ///< the numbers that are allowed: "at least 1"; "": not known
  std::vector<std::string> values = {};  ///< names that the help and the completion show
  bool is_common = false;                ///< --help shows it
  bool is_of_weights = false;
  bool is_of_command_line = false;     ///< config files cannot contain it
  bool repeats = false;                ///< a text that may have several lines, as a list
  std::function<bool()> applies = {};  ///< empty: always
  std::vector<Exclusion> exclusions = {};
  std::vector<Condition> conditions = {};
  std::string leader = {};        ///< follows()
  std::string example_text = {};  ///< example()
  std::vector<std::string> other_names = {};

  /// A resumed run with another value is no longer the same run.
  OptionRow& shapes_weights() {
    is_of_weights = true;
    return *this;
  }
  /// Each occurrence on the command line adds a line. In a config file, one text or an array.
  OptionRow& repeatable() {
    repeats = true;
    return *this;
  }
  bool has_lines() const { return type == Type::list || repeats; }
  /// Most runs use the option.
  OptionRow& common() {
    is_common = true;
    return *this;
  }
  /// The help and the completion show these names.
  OptionRow& suggests(std::vector<std::string> names) {
    values = std::move(names);
    return *this;
  }
  /// The option is part of the run's options only if `condition`.
  OptionRow& only_if(std::function<bool()> condition) {
    applies = std::move(condition);
    return *this;
  }
  /// Only one of this option and `option` can be set. `what`: what both set.
  OptionRow& excludes(std::string option, std::string what = "") {
    exclusions.push_back({std::move(option), std::move(what)});
    return *this;
  }
  /// The option has an effect only with another one: "--image-size", or "--lr-schedule cosine".
  OptionRow& only_with(std::string option, std::function<bool()> holds = {}) {
    conditions.push_back({std::move(option), std::move(holds)});
    return *this;
  }
  /// The option has no effect if `option` is set and, with `when`, if that returns true.
  OptionRow& idle_with(std::string option, std::function<bool()> when = {}) {
    conditions.push_back({std::move(option), std::move(when), /*against=*/true});
    return *this;
  }
  /// A recipe sets the option only for its own choice of `option`.
  OptionRow& follows(std::string option) {
    leader = std::move(option);
    return *this;
  }
  /// The value in an example, perhaps with all other options that it needs; of a flag only these.
  OptionRow& example(std::string words) {
    example_text = std::move(words);
    return *this;
  }
  /// Its names in other trainers (PyTorch's examples, torchvision, timm, Lightning, Keras,
  /// TensorFlow's tutorials), in small letters with dashes, perhaps with the value here: "amp
  /// bf16".
  OptionRow& also_called(std::vector<std::string> names) {
    other_names = std::move(names);
    return *this;
  }

  /// Reads `text`, which must not be empty or contain control characters.
  void set(const std::string& text, Source from);
  /// On the command line or in the config file.
  bool given() const { return source >= Source::file; }
  bool differs() const { return show() != by_default; }
  /// Whether only one of this option and `other` can be set.
  bool is_against(const OptionRow& other) const;
  /// "--steps", or "--steps (run.toml:3)" if the config file sets it: for errors.
  std::string where() const;
};

class OptionRows {
 public:
  OptionRows() = default;
  OptionRows& operator=(OptionRows&&) = delete;  ///< neither copied nor moved

  /// The heading of the rows that follow, and whether all of them shape the weights.
  void group(const std::string& name, bool shapes_weights = false) {
    group_ = name;
    shapes_weights_ = shapes_weights;
  }
  /// A path may begin with "~" (home_path()). `check` throws the usage error.
  OptionRow& text(const std::string& name, std::string& value, const char* placeholder,
                  const std::string& about, CheckWord check = {});
  /// A text that is one of `names`.
  OptionRow& choice(const std::string& name, std::string& value, const char* placeholder,
                    const std::string& about, const std::vector<std::string>& names) {
    return text(name, value, placeholder, about, one_of(name, names)).suggests(names);
  }
  /// The name of an entry of `registry` (src/base/table.h).
  template <class Entry>
  OptionRow& entry(const std::string& name, std::string& value, const std::string& about,
                   std::span<const Entry> registry) {
    const auto check = [registry](const std::string& text) { lockstep::find(registry, text); };
    return text(name, value, "NAME", about, check).suggests(names_of(registry));
  }
  /// One text per occurrence; in a config file, an array of texts.
  OptionRow& list(const std::string& name, std::vector<std::string>& values,
                  const char* placeholder, const std::string& about, CheckWord check = {});
  /// `optional`: 0 stands for a default that the help names in brackets.
  template <class T>
  OptionRow& number(const std::string& name, T& value, const Bounds& range,
                    const std::string& about, bool optional = false) {
    const bool whole = std::is_integral_v<T>;
    OptionRow& row = add(
        name, whole ? OptionRow::Type::whole : OptionRow::Type::number,
        [=, &value](const std::string& text) { value = parse_number<T>(name, text, range); },
        [=, &value] { return optional && value == T{0} ? "" : fmt::format("{}", value); },
        whole ? "N" : "NUMBER", about);
    row.range = range.text();
    return row;
  }
  template <class T>
  OptionRow& optional_number(const std::string& name, T& value, const Bounds& range,
                             const std::string& about) {
    return number(name, value, range, about, /*optional=*/true);
  }
  OptionRow& flag(const std::string& name, bool& value, const std::string& about);
  /// One of the types with these names (name_of()).
  OptionRow& type(const std::string& name, Type& value, const std::string& about,
                  const std::vector<std::string>& names);
  /// Any other option: `read` turns a word or a number into the value, `show` turns it back.
  OptionRow& add(const std::string& name, OptionRow::Type type, CheckWord read,
                 std::function<std::string()> show, const char* placeholder,
                 const std::string& about);

  std::deque<OptionRow>& all() { return rows_; }
  /// null if there is no such option.
  OptionRow* find(std::string_view name);
  /// A row that exists.
  OptionRow& at(std::string_view name);

  /// Throws the usage error if two options are set that exclude each other. It names the lines of
  /// the config file that set them.
  void check_exclusions();
  /// Whether the user has set `row`, an option that it excludes, or one that it follows.
  bool overrides_recipe(const OptionRow& row);
  /// The options that are set and have no effect: "--lr-end does nothing without ...".
  std::vector<std::string> idle();

 private:
  std::string group_;
  bool shapes_weights_ = false;
  std::deque<OptionRow> rows_;
};

/// "true" or "false"; throws the usage error that begins with `name`.
bool parse_flag(const std::string& name, const std::string& text);

}  // namespace lockstep
