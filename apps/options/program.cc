// run_or_print_help() and run_without_ranks() of apps/options/help.h. They are apart from the texts
// of a help, so that a program without MPI links only these.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "apps/options/help.h"
#include "src/base/floating_point.h"
#include "src/base/text.h"
#include "src/report/report.h"

namespace lockstep {
namespace {

void print_answer(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  Console().line(std::string(text));
}

/// True if this process has no launcher and the answer is printed. Errors are left to the second
/// reading.
bool answered_without_ranks(const std::function<bool(std::string& answer)>& parse) {
  const Environment environment = [](const char* name) { return std::getenv(name); };
  if (has_launcher(environment)) return false;
  try {
    std::string answer;
    if (parse(answer)) return false;
    if (is_first_task(environment)) print_answer(answer);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

int run_or_print_help(int argc, char** argv, const char* program,
                      const std::function<bool(std::string& answer)>& parse,
                      const std::function<int(World&)>& run, Start start) {
  use_default_floating_point();  // options are rounded too
  if (answered_without_ranks(parse)) return kExitSuccess;
  const auto body = [&](World& world) -> int {
    std::string answer;
    bool runs = false;
    agree(world.comm(), [&] { runs = parse(answer); });
    // A rank that only prints its help would leave, and the others would wait for it.
    expect_same(world.comm(), "options",
                fmt::format("asked for = {}", runs ? "a run" : "--help or the like"));
    if (runs && start == Start::single && world.comm().size() > 1)
      throw AgreedError(kOneProcess, kExitUsage);
    if (runs) return run(world);
    if (world.comm().rank() == 0) print_answer(answer);
    return kExitSuccess;
  };
  return run_main(argc, argv, program, body, start);
}

int run_without_ranks(const char* program, const std::function<bool(std::string& answer)>& parse,
                      const std::function<int()>& run) {
  try {
    std::string answer;
    if (parse(answer)) return run();
    print_answer(answer);
    return kExitSuccess;
  } catch (...) {
    const Error error = current_error();
    print_error(fmt::format("{}: {}\n", program, error.what()));
    return error.exit_code();
  }
}

}  // namespace lockstep
