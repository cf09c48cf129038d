// Starts the ranks of a program with mpirun, watches them, and starts them again on the hosts that
// are left. It uses no MPI itself.

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "apps/options/command_line.h"
#include "apps/options/help.h"
#include "apps/supervise/command.h"
#include "apps/supervise/processes.h"
#include "apps/supervise/supervisor.h"
#include "src/base/check.h"
#include "src/base/text.h"
#include "src/files/file.h"
#include "src/report/report.h"

namespace lockstep {
namespace {

constexpr int kMostRanks = 100000;

struct RunOptions {
  std::string program, hostfile, hosts, mpirun;
  int ranks = 0, least = 1, restarts = 20;
};

void declare(OptionRows& rows, RunOptions& o) {
  rows.group("Options");
  rows.text("PROGRAM", o.program, "", "Program that mpirun starts; its own arguments follow")
      .example("build/train_cifar --steps 100");
  rows.optional_number("--np", o.ranks, Bounds::at_least(1, kMostRanks),
                       "Number of ranks, also -np [one per GPU or core; the slots of the hosts]\n"
                       "After a failure there may be fewer. There are never more than the "
                       "program's --shards.")
      .example("2");
  rows.text("--hostfile", o.hostfile, "FILE", "Hosts with their slots: one NAME slots=N in a line")
      .excludes("--host", "hosts")
      .example("hosts");
  rows.text("--host", o.hosts, "LIST", "Hosts with their slots, such as node1:8,node2:8")
      .example("localhost:2");
  rows.number("--restarts", o.restarts, Bounds::at_least(0, 1e6),
              "Failures after which the ranks are started again\n"
              "Hosts that join do not count. Wrong options, unusable data, divergence and a disk "
              "that is full end the run at once.");
  rows.number("--min-np", o.least, Bounds::at_least(1, kMostRanks),
              "Ranks that must be left after a failure\n"
              "With fewer the run ends. The same command resumes it.");
  rows.add("--mpirun", OptionRow::Type::text, [&o](const std::string& text) { o.mpirun = text; },
           [&o] { return o.mpirun; }, "WORDS",
           "More options for mpirun, such as \"--prefix /opt/openmpi\"")
      .example("--tag-output");
}

/// The number of words that are not the program's: those before the first word that is neither an
/// option nor its value. Among these it replaces the names that mpirun has for --np.
std::size_t own_words(OptionRows& rows, std::vector<std::string>& words) {
  std::size_t i = 0;
  while (i < words.size() && words[i].starts_with('-')) {
    if (words[i] == "-np" || words[i] == "-n") words[i] = "--np";
    const OptionRow* row = rows.find(words[i]);
    i += row != nullptr && row->type != OptionRow::Type::flag ? 2 : 1;
  }
  return std::min(i, words.size());
}

/// Throws the usage Error unless `program` can be executed here.
void require_program(const std::string& program) {
  const char* const path = program.find('/') == program.npos ? std::getenv("PATH") : nullptr;
  for (const std::string& folder : split(path ? path : "", ':')) {
    const std::filesystem::path file = std::filesystem::path(folder) / program;
    if (!std::filesystem::is_directory(file) && ::access(file.c_str(), X_OK) == 0) return;
  }
  const char* what = path ? "is not a program on the PATH" : "is not a program";
  if (!path && is_gone(program)) what = "does not exist";
  fail_usage("{} {}. Pass its path, such as ./train_cifar or build/train_cifar.", one_line(program),
             what);
}

int supervise(const RunOptions& o, const std::vector<std::string>& words) {
  require_program(o.program);
  std::vector<Host> hosts = {{"", o.ranks > 0 ? o.ranks : default_ranks()}};
  if (!o.hosts.empty()) hosts = parse_hosts(o.hosts);
  if (!o.hostfile.empty()) hosts = read_hostfile(o.hostfile);
  int slots = 0;
  for (const Host& host : hosts) slots += host.slots;
  // A rank without a shard would have no work, so --shards limits the ranks.
  const int ranks = std::min(o.ranks > 0 ? o.ranks : slots, most_ranks(words));
  if (ranks > slots) {
    fail_usage("--np {} exceeds the {} slots of the hosts. Pass fewer ranks, or more slots.", ranks,
               slots);
  }
  if (o.least > ranks) fail_usage("--min-np {} exceeds the {} ranks.", o.least, ranks);
  std::istringstream more(o.mpirun);
  Processes processes({.words = words, .mpirun = {std::istream_iterator<std::string>(more), {}}},
                      hosts);
  return Supervisor({.hosts = hosts, .ranks = ranks, .least = o.least, .restarts = o.restarts},
                    processes)
      .run();
}

int run(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  RunOptions options;
  OptionRows rows;
  declare(rows, options);
  const std::size_t own = own_words(rows, words);
  const ProgramText text{"lockstep_run",
                         "Starts the ranks of a program, and again on what is left after a failure",
                         "lockstep_run [OPTIONS] PROGRAM"};
  // Only the words of lockstep_run are parsed, with the name of the program as the value of
  // PROGRAM. The options after it are not known here.
  std::vector<char*> parsed = {argv[0]};
  for (std::size_t i = 0; i < std::min(own + 1, words.size()); ++i)
    parsed.push_back(words[i].data());
  std::string answer;
  if (!read_command_line(rows, text, static_cast<int>(parsed.size()), parsed.data(), answer)) {
    if (answer.ends_with('\n')) answer.pop_back();
    Console().line(answer);
    return kExitSuccess;
  }
  return supervise(options, {words.begin() + static_cast<std::ptrdiff_t>(own), words.end()});
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  try {
    return run(argc, argv);
  } catch (const Error& error) {
    print_error(fmt::format("lockstep_run: {}\n", error.what()));
    return error.exit_code();
  } catch (const std::exception& error) {
    print_error(fmt::format("lockstep_run: unexpected error: {}\n", error.what()));
    return kExitFailure;
  }
}
