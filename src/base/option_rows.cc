#include "src/base/option_rows.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "src/base/check.h"
#include "src/base/text.h"

namespace lockstep {
namespace {

/// Whether `text` begins as a number without a leading zero, which could mean octal.
bool is_plain(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  const auto digit = [&](std::size_t at) {
    return at < text.size() && text[at] >= '0' && text[at] <= '9';
  };
  return (digit(0) || (text.starts_with('.') && digit(1))) && !(text[0] == '0' && digit(1));
}

}  // namespace

std::string Bounds::text() const {
  if (high >= 0x1p64) return fmt::format("{} {}", open ? "above" : "at least", low);
  return open ? fmt::format("above {} and at most {}", low, high)
              : fmt::format("from {} to {}", low, high);
}

template <class T>
T parse_number(const std::string& name, const std::string& text, const Bounds& range) {
  const char *begin = text.data(), *end = begin + text.size();
  const auto refuse = [&](const std::string& why) { fail_usage("{}: {} is {}", name, text, why); };
  // The double shows whether `text` is a number, and whether it lies in the range.
  double about = 0;
  const auto seen = std::from_chars(begin, end, about);
  if (text.find_first_not_of("0123456789+-.eE") != text.npos || !is_plain(text) || seen.ptr != end)
    fail_usage("{}: \"{}\" is not a number (in plain decimals)", name, text);
  // std::from_chars() leaves the value as it was for numbers that are too large and too small
  // alike. strtod() tells which.
  if (seen.ec == std::errc::result_out_of_range) about = std::strtod(text.c_str(), nullptr);
  const bool below = range.open ? about <= range.low && seen.ec == std::errc{} : about < range.low;
  if (below || about > range.high)
    refuse(below || range.high < 0x1p64 ? "not a number " + range.text() : "too large");
  T value{};
  const auto result = std::from_chars(begin, end, value);
  if (result.ec == std::errc::result_out_of_range)
    refuse(std::abs(about) < 1 ? "too close to 0" : "too large");
  if (result.ec != std::errc{} || result.ptr != end) refuse("not a whole number");
  return value + T{0};  // no -0
}

template int parse_number(const std::string&, const std::string&, const Bounds&);
template std::int64_t parse_number(const std::string&, const std::string&, const Bounds&);
template std::uint64_t parse_number(const std::string&, const std::string&, const Bounds&);
template float parse_number(const std::string&, const std::string&, const Bounds&);
template double parse_number(const std::string&, const std::string&, const Bounds&);

CheckWord one_of(const std::string& name, std::vector<std::string> words) {
  return [name, words = std::move(words)](const std::string& word) {
    if (std::ranges::find(words, word) == words.end())
      fail_usage("{}: \"{}\" is neither {}", name, word, fmt::join(words, " nor "));
  };
}

std::string home_path(std::string_view option, const std::string& path) {
  if (path.starts_with("--")) {
    fail_usage("{}: its value is missing, because {} is an option. A path may begin with ./",
               option, path);
  }
  if (!path.starts_with('~')) return path;
  if (path.size() > 1 && path[1] != '/') {
    fail_usage("{}: \"{}\" begins with the home of another user. Pass the full path, or ./{}.",
               option, path, path);
  }
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0')
    fail_usage("{}: \"{}\" needs the variable HOME. Pass the full path.", option, path);
  return home + path.substr(1);
}

bool parse_flag(const std::string& name, const std::string& text) {
  if (text != "true" && text != "false")
    fail_usage("{}: \"{}\" is neither true nor false", name, text);
  return text == "true";
}

void OptionRow::set(const std::string& text, Source from) {
  if (text.empty() && type != Type::list)
    fail_usage("{}: its value is empty (a variable that is not set?)", name);
  const bool lines = !has_lines() && text.find('\n') != text.npos;
  if (lines || printable(text) != text) fail_usage("{}: its value has control characters", name);
  read(text);
  source = from;
}

std::string OptionRow::where() const {
  return place.empty() ? name : fmt::format("{} ({})", name, place);
}

bool OptionRow::is_against(const OptionRow& other) const {
  const auto excludes = [](const OptionRow& one, const std::string& name) {
    return std::ranges::count(one.exclusions, name, &Exclusion::option) > 0;
  };
  return excludes(*this, other.name) || excludes(other, name);
}

OptionRow& OptionRows::add(const std::string& name, OptionRow::Type type, CheckWord read,
                           std::function<std::string()> show, const char* placeholder,
                           const std::string& about) {
  // The member still has its initial value, which is the default.
  const std::string by_default = show();
  OptionRow& row = rows_.emplace_back(OptionRow{name, type, placeholder, about, group_,
                                                std::move(read), std::move(show), by_default});
  row.is_of_weights = shapes_weights_;
  return row;
}

OptionRow& OptionRows::text(const std::string& name, std::string& value, const char* placeholder,
                            const std::string& about, CheckWord check) {
  const auto read = [name, &value, check](const std::string& text) {
    value = home_path(name, text);
    if (check) check(value);
  };
  const auto show = [&value] { return value; };
  return add(name, OptionRow::Type::text, read, show, placeholder, about);
}

OptionRow& OptionRows::list(const std::string& name, std::vector<std::string>& values,
                            const char* placeholder, const std::string& about, CheckWord check) {
  const auto read = [&values, check](const std::string& text) {
    values = lines_of(text);
    if (check) std::ranges::for_each(values, check);
  };
  const auto show = [&values] { return joined(values, "\n"); };
  return add(name, OptionRow::Type::list, read, show, placeholder, about);
}

OptionRow& OptionRows::flag(const std::string& name, bool& value, const std::string& about) {
  const auto read = [=, &value](const std::string& text) { value = parse_flag(name, text); };
  const auto show = [&value] { return value ? "true" : "false"; };
  return add(name, OptionRow::Type::flag, read, show, "", about);
}

OptionRow& OptionRows::type(const std::string& name, Type& value, const std::string& about,
                            const std::vector<std::string>& names) {
  const auto read = [&value, check = one_of(name, names)](const std::string& text) {
    check(text);
    value = type_called(text);
  };
  const auto show = [&value] { return name_of(value); };
  return add(name, OptionRow::Type::word, read, show, "TYPE", about).suggests(names);
}

OptionRow* OptionRows::find(std::string_view name) {
  const auto found = std::ranges::find(rows_, name, &OptionRow::name);
  return found == rows_.end() ? nullptr : &*found;
}

OptionRow& OptionRows::at(std::string_view name) {
  OptionRow* row = find(name);
  expect(row != nullptr, "an option that is read is declared");
  return *row;
}

void OptionRows::check_exclusions() {
  for (const OptionRow& row : rows_) {
    for (const auto& [option, what] : row.exclusions) {
      const OptionRow& other = at(option);
      if (!row.differs() || !other.differs()) continue;
      if (what.empty())
        fail_usage("{} does not work with {}. Pass one of them.", row.where(), other.where());
      fail_usage("{} and {} both set the {}. Pass one of them.", row.where(), other.where(), what);
    }
  }
}

bool OptionRows::overrides_recipe(const OptionRow& row) {
  if (!row.leader.empty() && overrides_recipe(at(row.leader))) return true;
  return std::ranges::any_of(rows_, [&](const OptionRow& other) {
    return other.given() && (other.name == row.name || row.is_against(other));
  });
}

std::vector<std::string> OptionRows::idle() {
  std::vector<std::string> notes;
  for (const OptionRow& row : rows_) {
    for (const auto& [option, holds, against] : row.conditions) {
      if (!row.differs()) continue;
      const auto set = [&, &name = option] { return at(name).differs(); };
      const bool idle = against ? set() && (!holds || holds()) : !(holds ? holds() : set());
      if (!idle) continue;
      notes.push_back(
          fmt::format("{} does nothing {} {}", row.name, against ? "with" : "without", option));
    }
  }
  return notes;
}

}  // namespace lockstep
