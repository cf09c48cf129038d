#include "apps/options/command_line.h"

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "apps/options/help.h"
#include "src/base/machine.h"
#include "src/base/table.h"
#include "src/base/text.h"

namespace lockstep {
namespace {

/// Names of options in other trainers, in the spelling of plain(), and here: PyTorch's examples,
/// torchvision, Lightning, Keras, TensorFlow's tutorials.
constexpr std::pair<std::string_view, std::string_view> kElsewhere[] = {
    {"arch", "model"},
    {"batch-size", "batch"},
    {"dtype", "precision"},
    {"learning-rate", "lr"},
    {"max-epochs", "epochs"},
    {"num-epochs", "epochs"},
    {"num-steps", "steps"},
    {"opt", "optimizer"},
    {"output-dir", "checkpoint-dir"},
    {"train-dir", "checkpoint-dir"},
    {"wd", "weight-decay"},
};

/// `name` in small letters, with - for _.
std::string plain(std::string_view name) {
  std::string result(name);
  for (char& c : result)
    c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

/// Throws the usage error for the first word that CLI11 did not understand.
[[noreturn]] void fail_extra(const CLI::App& app) {
  const std::string word = printable(app.remaining().front());
  if (word.rfind("-", 0) != 0)
    fail_usage("\"{}\" is not understood: options begin with --; see --help", word);
  std::string name = word.substr(0, word.find('='));
  name.erase(0, std::min(name.find_first_not_of('-'), name.size()));
  fail_usage("unknown option {}{}; --help lists all options", word, hint(app, name, "--"));
}

/// CLI11 takes the next word for the value of "--name=", and "--flag=" for true.
void require_values(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const bool cut = word.starts_with("--") && word.find('=') + 1 == word.size();
    if (!word.empty() && !cut) continue;
    if (word.empty() && i == 1)
      fail_usage("\"\" is not understood: options begin with --; see --help");
    const std::string name(cut ? word.substr(0, word.size() - 1) : argv[i - 1]);
    fail_usage("{}: its value is empty (a variable that is not set?)", printable(name));
  }
}

}  // namespace

std::string hint(const CLI::App& app, std::string_view name, std::string_view prefix) {
  std::vector<std::string_view> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& option_name : option->get_lnames()) known.push_back(option_name);
  }
  const std::string asked = plain(name);
  std::string meant;
  for (const auto& [theirs, ours] : kElsewhere) {
    if (asked == theirs && std::find(known.begin(), known.end(), ours) != known.end()) meant = ours;
  }
  if (meant.empty()) meant = nearest(asked, known);
  return meant.empty() ? "" : fmt::format(" (did you mean {}{}?)", prefix, meant);
}

void add_rows(CLI::App& app, OptionRows& rows) {
  for (OptionRow& row : rows.all()) {
    const auto set = [&row](const std::string& text) {
      row.set(text, OptionRow::Source::command_line);
    };
    if (row.type == OptionRow::Type::flag) {
      const auto nothing = [](std::int64_t) {};
      app.add_flag_function(row.name, nothing, row.about)
          ->check([set](const std::string& text) {  // CLI11 would take 3 for true
            set(text);
            return std::string();
          })
          ->group(row.group);
      continue;
    }
    CLI::Option* option = app.add_option_function<std::string>(row.name, set, row.about);
    option->default_str(row.by_default)->type_name(row.value)->group(row.group);
    if (row.type == OptionRow::Type::list)
      option->multi_option_policy(CLI::MultiOptionPolicy::Join);
  }
}

bool read_command_line(CLI::App& app, int argc, char** argv, const char* group,
                       std::string& answer) {
  app.set_help_flag("-h,--help", "Print this and exit")->group(group);
  app.set_version_flag("--version", build_name(), "Print the version and exit")->group(group);
  app.get_formatter()->column_width(34);
  app.allow_extras();
  require_values(argc, argv);
  try {
    app.parse(argc, argv);
    if (!app.remaining().empty()) fail_extra(app);
    return true;
  } catch (const CLI::CallForHelp&) {
    answer = help_text(app);
  } catch (const CLI::CallForVersion& version) {
    answer = fmt::format("{} {}\n", app.get_name(), version.what());
  } catch (const CLI::ParseError& error) {
    if (!app.remaining().empty()) fail_extra(app);
    fail_usage("{}; --help lists all options", printable(error.what()));
  }
  return false;
}

}  // namespace lockstep
