#include "apps/options/option_set.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "apps/options/command_line.h"
#include "src/base/check.h"

namespace lockstep {
namespace {

/// Digits that from_chars reads, without a zero in front, which some take for octal.
bool is_plain(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  const auto digit = [&](std::size_t at) {
    return at < text.size() && text[at] >= '0' && text[at] <= '9';
  };
  return (digit(0) || (text.starts_with('.') && digit(1))) && !(text[0] == '0' && digit(1));
}

[[noreturn]] void fail_empty(std::string_view name) {
  fail_usage("{}: its value is empty (a variable that is not set?)", name);
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

bool has_control_characters(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; });
}

}  // namespace

template <class T>
T parse_number(const std::string& name, const std::string& text, const Bounds& range) {
  constexpr bool kWhole = std::is_integral_v<T>;
  const char *begin = text.data(), *end = begin + text.size();
  const auto refuse = [&](const std::string& why) { fail_usage("{}: {}", name, why); };
  if (text.find_first_not_of("0123456789+-.eE") != std::string::npos || !is_plain(text))
    refuse(fmt::format("\"{}\" is not a number (in plain decimals)", text));
  // As a double first: whether it is a number at all, and on which side of the range it lies.
  double about = 0;
  const auto seen = std::from_chars(begin, end, about);
  if (seen.ptr != end) refuse(fmt::format("\"{}\" is not a number (in plain decimals)", text));
  if (seen.ec == std::errc::result_out_of_range) about = std::strtod(text.c_str(), nullptr);
  if (range.open && about <= range.low && seen.ec == std::errc{})
    refuse(fmt::format("{} is not above {:g}", text, range.low));
  if (about < range.low || about > range.high) {
    if (range.high < 1e6) {  // a range that one can have in mind
      refuse(fmt::format("{} is not between {:g} and {:g}", text, range.low, range.high));
    }
    refuse(about < range.low ? fmt::format("{} is below {:g}", text, range.low)
                             : text + " is too large");
  }
  T value{};
  const auto result = std::from_chars(begin, end, value);
  if (result.ec == std::errc::result_out_of_range)
    refuse(text + (std::abs(about) < 1 ? " is too close to 0" : " is too large"));
  if (result.ec != std::errc{} || result.ptr != end)
    refuse(fmt::format("{} is not a {}number", text, kWhole ? "whole " : ""));
  return value + T{0};  // no -0
}

template int parse_number(const std::string&, const std::string&, const Bounds&);
template std::int64_t parse_number(const std::string&, const std::string&, const Bounds&);
template std::uint64_t parse_number(const std::string&, const std::string&, const Bounds&);
template float parse_number(const std::string&, const std::string&, const Bounds&);
template double parse_number(const std::string&, const std::string&, const Bounds&);

std::function<void(const std::string&)> one_of(const char* name, std::vector<std::string> words) {
  return [name, words = std::move(words)](const std::string& word) {
    if (std::find(words.begin(), words.end(), word) == words.end())
      fail_usage("{}: \"{}\" is neither {}", name, word, fmt::join(words, " nor "));
  };
}

OptionSet::Declared& OptionSet::Declared::shapes_weights() {
  entry_.shapes_weights = true;
  return *this;
}

OptionSet::Declared& OptionSet::Declared::only_where(std::function<bool()> applies) {
  entry_.applies = std::move(applies);
  return *this;
}

OptionSet::Declared OptionSet::add(const std::string& option, Type type,
                                   std::function<void(const std::string&)> set,
                                   std::function<std::string()> show, const char* value,
                                   const std::string& about) {
  Entry& kept = entries_.emplace_back();
  kept.name = option.substr(2);
  kept.type = type;
  kept.set = std::move(set);
  kept.show = std::move(show);
  kept.usual = kept.show();
  if (kept.type == Type::flag) {
    const auto nothing = [](std::int64_t) {};
    kept.option = app_.add_flag_function(option, nothing, about)
                      ->check([&kept](const std::string& text) {  // CLI11 would take 3 for true
                        kept.set(text);
                        return std::string();
                      });
  } else {
    kept.option =
        app_.add_option_function<std::string>(option, kept.set, about)->default_str(kept.usual);
  }
  if (kept.type != Type::flag) kept.option->type_name(value);
  if (kept.type == Type::list) kept.option->multi_option_policy(CLI::MultiOptionPolicy::Join);
  kept.option->group(group_);
  return Declared(kept);
}

OptionSet::Declared OptionSet::text(const std::string& name, std::string& value, const char* type,
                                    const std::string& about,
                                    std::function<void(const std::string&)> check) {
  const auto set = [name, &value, check](const std::string& text) {
    if (text.empty()) fail_empty(name);
    if (text.starts_with("--")) {
      fail_usage("{}: its value is missing, for {} is an option; a path may begin with ./", name,
                 text);
    }
    value = home_path(name, text);
    if (check) check(value);
  };
  return add(
      name, Type::text, set, [&value] { return value; }, type, about);
}

OptionSet::Declared OptionSet::list(const std::string& name, std::vector<std::string>& values,
                                    const char* type, const std::string& about,
                                    std::function<void(const std::string&)> check) {
  const auto set = [&values, check](const std::string& lines) {
    values = lines_of(lines);
    if (check) std::for_each(values.begin(), values.end(), check);
  };
  return add(
      name, Type::list, set, [&values] { return fmt::format("{}", fmt::join(values, "\n")); }, type,
      about);
}

template <class T>
OptionSet::Declared OptionSet::add_number(const std::string& name, T& value, const Bounds& range,
                                          const std::string& about, bool optional) {
  constexpr bool kWhole = std::is_integral_v<T>;
  const auto set = [=, &value](const std::string& text) {
    value = parse_number<T>(name, text, range);
  };
  const auto show = [=, &value] {
    return optional && value == T{0} ? "" : fmt::format("{}", value);
  };
  return add(name, kWhole ? Type::whole : Type::number, set, show, kWhole ? "N" : "NUMBER", about);
}

template OptionSet::Declared OptionSet::add_number(const std::string&, int&, const Bounds&,
                                                   const std::string&, bool);
template OptionSet::Declared OptionSet::add_number(const std::string&, std::int64_t&, const Bounds&,
                                                   const std::string&, bool);
template OptionSet::Declared OptionSet::add_number(const std::string&, std::uint64_t&,
                                                   const Bounds&, const std::string&, bool);
template OptionSet::Declared OptionSet::add_number(const std::string&, float&, const Bounds&,
                                                   const std::string&, bool);
template OptionSet::Declared OptionSet::add_number(const std::string&, double&, const Bounds&,
                                                   const std::string&, bool);

OptionSet::Declared OptionSet::flag(const std::string& name, bool& value,
                                    const std::string& about) {
  const auto set = [=, &value](const std::string& text) {
    if (text != "true" && text != "false")
      fail_usage("{}: \"{}\" is neither true nor false", name, text);
    value = text == "true";
  };
  return add(
      name, Type::flag, set, [&value] { return value ? "true" : "false"; }, "", about);
}

OptionSet::Declared OptionSet::word(const std::string& name,
                                    std::function<void(const std::string&)> read,
                                    std::function<std::string()> show, const char* type,
                                    const std::string& about) {
  return add(name, Type::word, std::move(read), std::move(show), type, about);
}

const OptionSet::Entry* OptionSet::find(std::string_view name) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.name == name; });
  return found == entries_.end() ? nullptr : &*found;
}

void OptionSet::read_file(const std::string& file) {
  using Kind = ConfigValue::Kind;
  for (const ConfigValue& line : read_config(file)) {
    auto* entry = const_cast<Entry*>(find(line.name));
    if (!entry) {
      if (app_.get_option_no_throw("--" + line.name))
        fail_usage("{}: --{} belongs on the command line", line.place, line.name);
      fail_usage("{}: unknown option \"{}\"{}; a line is name = value, and --help lists all names",
                 line.place, line.name, hint(app_, line.name, ""));
    }
    // Whole numbers above TOML's stand in quotes, and words may be numbers: checkpoint-every = 100.
    const bool large = line.kind == Kind::text && line.value.size() > 18 && is_plain(line.value);
    const bool fits =
        entry->type == Type::flag     ? line.kind == Kind::boolean
        : entry->type == Type::whole  ? line.kind == Kind::integer || large
        : entry->type == Type::number ? line.kind == Kind::integer || line.kind == Kind::number
        : entry->type == Type::list
            ? line.kind == Kind::list
            : line.kind == Kind::text || (entry->type == Type::word && line.kind == Kind::integer);
    const bool array = line.kind == Kind::list || line.kind == Kind::array;
    if (array && entry->type != Type::list)
      fail_usage("{}: {} is an array: each option has one value", line.place, line.name);
    if (!fits) {
      fail_usage("{}: {} wants {}", line.place, line.name,
                 entry->type == Type::flag     ? "true or false, without quotes"
                 : entry->type == Type::whole  ? "a whole number, without quotes"
                 : entry->type == Type::number ? "a number, without quotes"
                 : entry->type == Type::list   ? "an array of texts: [\"...\", \"...\"]"
                                               : "a text in quotes");
    }
    if (line.kind != Kind::list && has_control_characters(line.value))
      fail_usage("{}: {} holds control characters", line.place, line.name);
    if (entry->option->count() > 0) continue;
    try {
      entry->set(line.value);
    } catch (const Error& error) {
      fail_usage("{}: {}", line.place, error.what());
    }
    entry->place = line.place;
  }
}

void OptionSet::preset(std::string_view recipe,
                       const std::function<bool(std::string_view name)>& leave_out) {
  while (!recipe.empty()) {
    const std::string_view line = recipe.substr(0, recipe.find(", "));
    recipe.remove_prefix(std::min(line.size() + 2, recipe.size()));
    const std::size_t equals = line.find(" = ");
    const std::string_view name = line.substr(0, equals);
    auto* entry = const_cast<Entry*>(find(name));
    expect(entry != nullptr && equals != line.npos, "a recipe is name = value, ...");
    if (entry->option->count() > 0 || !entry->place.empty() || leave_out(name)) continue;
    entry->set(std::string(line.substr(equals + 3)));
    entry->preset = true;
  }
}

bool OptionSet::is_preset(std::string_view name) const {
  const Entry* entry = find(name.substr(2));
  return entry && entry->preset;
}

bool OptionSet::given(std::string_view name) const {
  const Entry* entry = find(name.substr(2));
  return entry && (entry->option->count() > 0 || !entry->place.empty());
}

std::string OptionSet::where(std::string_view name) const {
  const Entry* entry = find(name.substr(2));
  return entry && !entry->place.empty() ? fmt::format("{} ({})", name, entry->place)
                                        : std::string(name);
}

std::string OptionSet::toml(const Entry& entry, const std::string& value) {
  if (entry.type == Type::list) {
    std::vector<std::string> texts;
    for (const std::string& line : lines_of(value)) texts.push_back(toml_string(line));
    return fmt::format("[{}]", fmt::join(texts, ", "));
  }
  const bool bare =
      entry.type != Type::text &&
      (entry.type != Type::word || value.find_first_not_of("0123456789") == std::string::npos) &&
      (entry.type != Type::whole || value.size() <= 18);
  return bare ? value : toml_string(value);
}

std::string OptionSet::to_text() const {
  std::string text;
  for (const Entry& entry : entries_) {
    const std::string value = entry.applies && !entry.applies() ? "" : entry.show();
    if (value.empty() && entry.type != Type::list) continue;
    if (is_utf8(value)) {
      text += fmt::format("{}={}\n", entry.name, toml(entry, value));
    } else {
      text += fmt::format("# {} is not UTF-8: {:02x}\n", entry.name,
                          fmt::join(std::vector<unsigned char>(value.begin(), value.end()), ""));
    }
  }
  return text;
}

void OptionSet::is_usual(std::string_view name) {
  auto* entry = const_cast<Entry*>(find(name.substr(2)));
  entry->usual = entry->show();
}

std::map<std::string, std::string> OptionSet::shaping() const {
  std::map<std::string, std::string> usual;
  for (const Entry& entry : entries_) {
    if (!entry.shapes_weights) continue;
    const bool nothing = entry.usual.empty() && entry.type != Type::list;
    usual.emplace(entry.name, nothing ? "" : toml(entry, entry.usual));
  }
  return usual;
}

void check_words(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (has_control_characters(word)) {
      std::string shown(word);
      std::replace_if(
          shown.begin(), shown.end(),
          [](char c) {
            return has_control_characters({&c, 1});
          },
          '?');
      fail_usage("\"{}\" holds control characters", shown);
    }
    const std::size_t equals = word.starts_with("--") ? word.find('=') : word.npos;
    const std::string_view value = equals == word.npos ? word : word.substr(equals + 1);
    if (value.empty())
      fail_empty(!word.empty() ? word.substr(0, equals) : i > 1 ? argv[i - 1] : "an argument");
    if (value.starts_with('[') && value.ends_with(']')) {
      fail_usage("{}: a value in brackets is not understood; a path may begin with ./", word);
    }
  }
}

}  // namespace lockstep
