#include "apps/command_line.h"

#include <algorithm>
#include <vector>

#include "src/table.h"

namespace lockstep {

std::string hint(const CLI::App& app, std::string_view name, std::string_view prefix) {
  std::vector<std::string_view> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& option_name : option->get_lnames()) known.push_back(option_name);
  }
  const std::string near = nearest(name, known);
  return near.empty() ? "" : fmt::format(" (did you mean {}{}?)", prefix, near);
}

void fail_extra(const CLI::App& app) {
  const std::string word = app.remaining().front();
  if (word.rfind("-", 0) != 0)
    fail_usage("\"{}\" is not understood: options begin with --; see --help", word);
  std::string name = word.substr(0, word.find('='));
  name.erase(0, std::min(name.find_first_not_of('-'), name.size()));
  fail_usage("unknown option {}{}; --help lists all options", word, hint(app, name, "--"));
}

}  // namespace lockstep
