#include "apps/audit/replay.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <set>
#include <thread>
#include <utility>

#include "apps/record/replay_steps.h"
#include "apps/record/run_files.h"
#include "apps/supervise/command.h"
#include "net/checkpoint.h"
#include "src/base/check.h"
#include "src/base/text.h"
#include "src/files/file.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// The options that a replay sets itself, or that write elsewhere.
const std::set<std::string> kOwnOptions = {"batch",
                                           "global-batch",
                                           "accumulate",
                                           "shards",
                                           "seed",
                                           "threads",
                                           "quiet",
                                           "verbose",
                                           "trace",
                                           "keep",
                                           "checkpoint-every",
                                           "summary-every",
                                           "find-lr"};
/// Those of the ranks. No bit depends on them if the order of sums is canonical.
const std::set<std::string> kRankOptions = {"shares", "reducer", "bucket-mb"};

/// Whether the weights do not depend on the number of ranks.
bool is_canonical(const RunFacts& facts) {
  const RunFacts::Json sums = facts.value("sums");
  return sums.is_object() && sums.value("canonical", RunFacts::Json()) == true;
}

bool is_program(const fs::path& file) {
  return fs::is_regular_file(file) && ::access(file.c_str(), X_OK) == 0;
}

/// The folder of this program's file.
fs::path own_folder() {
  std::error_code none;
  return fs::read_symlink("/proc/self/exe", none).parent_path();
}

/// The file of the training program: `named`, or one of the run's name beside this program. No
/// other file that the run names is started, because the run may be that of a stranger.
fs::path program_of(const std::string& named, const RunFacts& facts) {
  if (!named.empty()) {
    if (!is_program(named)) fail_usage("--program {} is not a program. Pass its path.", named);
    return named;
  }
  const std::string name = facts.text("program");
  const fs::path beside = own_folder() / fs::path(name).filename();
  if (name.empty() || !is_program(beside))
    fail_usage("there is no {} beside verify_run. Pass --program FILE.", beside.string());
  return beside;
}

/// Runs `words` with stdout and stderr in `output`. Returns the exit code. Throws Error if it
/// cannot be started, or if a signal ended it or this program.
int run_program(const std::vector<std::string>& words, const fs::path& output,
                const Signals& signals) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  posix_spawnattr_t attributes;  // this program blocks signals, which the other needs
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setsigmask(&attributes, &none);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, argv[0], &files, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  require(error == 0, "cannot start {}: {}. Check its path.", words.front(), std::strerror(error));
  int status = 0;
  for (bool told = false; ::waitpid(pid, &status, WNOHANG) == 0;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (signals.stop_requested() && !std::exchange(told, true)) ::kill(pid, SIGTERM);
  }
  require(!signals.stop_requested(), "a signal stopped the replay. Start it again.");
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  fail("a signal ended {} ({}). Start it again.", words.front(), ::strsignal(WTERMSIG(status)));
}

/// The first line of the program's own, else the last of the output, without the program's name.
std::string error_in(const std::string& output, const std::string& program) {
  std::string last = "it wrote no reason";
  for (const std::string& line : lines_of(output)) {
    if (line.starts_with(program + ": ")) return line.substr(program.size() + 2);
    if (!line.empty()) last = line;
  }
  return last;
}

std::string in_quotes(const fs::path& path) {
  return path.string().find('\'') == std::string::npos ? fmt::format("'{}'", path.string())
                                                       : fmt::format("\"{}\"", path.string());
}

[[noreturn]] void fail_scratch(const char* what, const fs::path& path,
                               const std::error_code& error) {
  throw Error(
      fmt::format("cannot {} {}: {}. Pass --scratch DIR.", what, path.string(), error.message()),
      kExitStorage);
}

}  // namespace

Replay::Replay(fs::path run, const RunFacts& facts, ReplayOptions options, const Signals& signals)
    : run_(std::move(run)), facts_(facts), options_(std::move(options)), signals_(signals) {
  const bool canonical = is_canonical(facts);
  const int before = std::max(1, static_cast<int>(facts.number("ranks")));
  const int threads = std::max(1, static_cast<int>(facts.number("threads")));
  ranks_ = options_.ranks > 0 ? options_.ranks
           : canonical        ? std::clamp(usable_cores() / threads, 1, before)
                              : before;
  if (!canonical && ranks_ != before) {
    fail_usage("the order of the run's sums depends on its {} ranks. Omit --np.", before);
  }
  program_ = fs::absolute(program_of(options_.program, facts));
  const fs::path parent =
      options_.scratch.empty() ? fs::temp_directory_path() : fs::path(options_.scratch);
  scratch_ = fs::absolute(parent) / ("lockstep-verify-" + unique_hex(8));
  std::error_code error;
  fs::create_directory(scratch_, error);
  if (error) fail_scratch("create", scratch_, error);
  for (const char* name :
       {"LOCKSTEP_RUN", "LOCKSTEP_CHANGE", "LOCKSTEP_CHANGED_AT", "LOCKSTEP_SUPERVISOR"})
    ::unsetenv(name);
  for (const auto& [name, value] :
       mpirun_environment({{"", 0, ranks_}}, usable_cores(), owns_machine()))
    ::setenv(name.c_str(), value.c_str(), /*overwrite=*/0);
}

Replay::~Replay() {
  std::error_code none;
  fs::remove_all(scratch_, none);
}

/// The options of the run, with those that decide bits as they were.
std::string Replay::config() const {
  const auto text = read_file(run_ / kConfigFile);
  require(text.has_value(), "{} has no {}. Restore it.", run_.string(), kConfigFile);
  const bool canonical = is_canonical(facts_);
  std::string config;
  for (const auto& [name, value] : named_values(*text)) {
    const bool replaced = (name == "data" && !options_.data.empty()) ||
                          (name == "model" && !facts_.text("network").empty());
    if (replaced || name.starts_with('#') || kOwnOptions.contains(name) ||
        (canonical && kRankOptions.contains(name)) || (name == "isa" && facts_.portable()))
      continue;
    config += fmt::format("{}={}\n", name, value);
  }
  for (const char* name : {"seed", "shards", "threads"})
    config += fmt::format("{}={}\n", name, facts_.number(name));
  config += fmt::format("global-batch={}\n", facts_.number("global_batch"));
  std::string folders = in_quotes(options_.data);
  for (const std::string& more : options_.more_data) folders += ", " + in_quotes(more);
  if (!options_.more_data.empty()) folders = fmt::format("[{}]", folders);
  if (!options_.data.empty()) config += fmt::format("data={}\n", folders);
  if (!facts_.text("network").empty())
    config += fmt::format("model={}\n", in_quotes(scratch_ / kNetworkFile));
  return config + "quiet=true\nkeep=2\ncheckpoint-every=\"1000000000s\"\nsummary-every=0\n";
}

fs::path Replay::checkpoint(std::int64_t step) const {
  return copy_ / "checkpoints" / checkpoint_name(step);
}

Replayed Replay::run(const Stretch& stretch, const std::vector<std::int64_t>& steps) {
  std::error_code error;
  fs::remove_all(copy_, error);
  copy_ = scratch_ / fmt::format("step-{}", stretch.begin);
  fs::create_directories(copy_ / "checkpoints", error);
  const fs::path from = run_ / "checkpoints" / checkpoint_name(stretch.begin);
  const bool resumes = !is_gone(from);  // else the options of the run name its start
  if (!error && resumes) fs::copy_file(from, checkpoint(stretch.begin), error);
  if (error) fail_scratch("copy a checkpoint to", copy_, error);
  if (const std::string& network = facts_.text("network"); !network.empty())
    replace_file(scratch_ / kNetworkFile, network);
  const fs::path config_file = scratch_ / kConfigFile, output = scratch_ / "output";
  replace_file(config_file, config());
  std::vector<std::string> words = {program_.string(), "--config", config_file.string(), "--run",
                                    copy_.string()};
  if (resumes) words.insert(words.end(), {"--resume", "auto"});
  if (ranks_ > 1) words = mpirun_words({.words = words, .mpirun = {}}, ranks_, "", {});
  ::setenv(kReplayVariable, fmt::format("{}", fmt::join(steps, ",")).c_str(), /*overwrite=*/1);
  Replayed result;
  result.code = run_program(words, output, signals_);
  ::unsetenv(kReplayVariable);
  if (result.code == kExitRequeue) result.code = kExitSuccess;
  if (result.code != kExitSuccess)
    result.error = error_in(read_file(output).value_or(""), facts_.text("program"));
  result.log = read_log(copy_);
  if (auto facts = stored_facts(copy_)) result.facts = *facts;
  return result;
}

}  // namespace lockstep
