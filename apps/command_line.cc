#include "apps/command_line.h"

#include <algorithm>
#include <vector>

#include "src/table.h"

namespace lockstep {
namespace {

/// " (did you mean --lr?)" where an option is near, with `prefix` in front of its name.
std::string hint(const CLI::App& app, std::string_view name, std::string_view prefix) {
  std::vector<std::string_view> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& option_name : option->get_lnames()) known.push_back(option_name);
  }
  const std::string near = nearest(name, known);
  return near.empty() ? "" : fmt::format(" (did you mean {}{}?)", prefix, near);
}

}  // namespace

CLI::Validator between(double low, double high) {
  const auto check = [=](std::string& text) -> std::string {
    double value = 0;
    if (!CLI::detail::lexical_cast(text, value)) return "\"" + text + "\" is not a number";
    if (value >= low && value <= high) return "";
    if (value > kAnyNumber) return text + " is too large";
    if (high < kAnyNumber) return fmt::format("{} is not between {:g} and {:g}", text, low, high);
    return low == kAboveZero ? text + " is not above 0"
                             : fmt::format("{} is below {:g}", text, low);
  };
  return {check, ""};
}

void fail_extra(const CLI::App& app) {
  const std::string word = app.remaining().front();
  if (word.rfind("-", 0) != 0)
    fail_usage("\"{}\" is not understood: options begin with --; see --help", word);
  std::string name = word.substr(0, word.find('='));
  name.erase(0, std::min(name.find_first_not_of('-'), name.size()));
  fail_usage("unknown option {}{}; --help lists all options", word, hint(app, name, "--"));
}

void fail_config(const CLI::App& app, const std::string& cause) {
  const auto file = app.get_config_ptr()->as<std::string>();
  for (const CLI::ConfigItem& item : app.get_config_formatter()->from_file(file)) {
    const bool section = item.name == "++" || item.name == "--";  // CLI11's marks of [name]
    const std::string name = item.fullname();
    if (!section && app.get_option_no_throw("--" + name) == nullptr) {
      fail_usage("{}: unknown option \"{}\"{}; a line is name = value, and --help lists all names",
                 file, name, hint(app, name, ""));
    }
  }
  fail_usage("{}: {}", file, cause);
}

}  // namespace lockstep
