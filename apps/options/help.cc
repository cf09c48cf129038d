#include "apps/options/help.h"

#include <fmt/format.h>

#include <cstdlib>
#include <exception>

#include "collectives/watch/launch.h"
#include "src/base/text.h"
#include "src/report/report.h"

namespace lockstep {
namespace {

void print_answer(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  Console().line(text);
}

/// Where this process was started without a launcher. What goes wrong is left to be found again.
bool answered_without_ranks(const std::function<bool(std::string& answer)>& parse) {
  const Environment environment = [](const char* name) { return std::getenv(name); };
  if (has_launcher(environment)) return false;
  try {
    std::string answer;
    if (parse(answer)) return false;
    if (is_first_task(environment)) print_answer(answer);
    return true;
  } catch (const std::exception&) {
    return false;  // the second reading says it
  }
}

}  // namespace

std::string wrapped(const std::string& text, std::size_t indent) {
  constexpr std::size_t kColumns = 79;
  std::string result;
  for (std::string line : lines_of(text)) {
    while (line.size() > kColumns) {
      const std::size_t space = line.rfind(' ', kColumns);
      if (space == std::string::npos || space <= indent) break;
      result += line.substr(0, space) + "\n";
      line = std::string(indent, ' ') + line.substr(space + 1);
    }
    result += line + "\n";
  }
  return result;
}

std::string help_text(const CLI::App& app) {
  return wrapped(app.help(), app.get_formatter()->get_column_width());
}

int run_or_print_help(int argc, char** argv, const char* program,
                      const std::function<bool(std::string& answer)>& parse,
                      const std::function<int(World&)>& run) {
  if (answered_without_ranks(parse)) return kExitSuccess;
  return run_main(argc, argv, program, [&](World& world) {
    std::string answer;
    bool runs = false;
    agree(world.comm(), [&] { runs = parse(answer); });
    expect_same(world.comm(), "options",
                fmt::format("asked for = {}", runs ? "a run" : "--help or the like"));
    if (runs) return run(world);
    if (world.comm().rank() == 0) print_answer(answer);
    return static_cast<int>(kExitSuccess);
  });
}

}  // namespace lockstep
