#include "apps/audit/replay.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <thread>

#include "apps/audit/checkpoints.h"
#include "apps/record/data_facts.h"
#include "apps/record/replay_steps.h"
#include "apps/record/run_files.h"
#include "apps/supervise/command.h"
#include "apps/supervise/processes.h"
#include "net/checkpoint.h"
#include "src/base/check.h"
#include "src/base/text.h"
#include "src/files/file.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// The options that reach a replay. No other may: the run may be that of a stranger, and options
/// can name files that the program would read or write.
constexpr std::string_view kPassed =
    " alternate-flips arithmetic as-published best beta1 beta2 check-images class-weights "
    "clip-norm "
    "color-jitter colours conv crop-area crop-padding cutmix cutout dataset deterministic device "
    "ema epochs epsilon eval-every flip fold group image-size isa keep-best "
    "label-smoothing length lr lr-end lr-scale-batch lr-schedule mixup model "
    "momentum nesterov newton-schulz optimizer other-momentum patience precision progress "
    "random-erase rho sampling small-images split-seed steps sync-bn target test-views tf32 "
    "timeout trivial-augment trust unit-filters validation verify-every warmup-epochs weight-decay "
    "wire words workers ";
/// Those that it sets itself, or that change no result.
constexpr std::string_view kLeftOut =
    " accumulate batch check checkpoint-every data find-lr global-batch keep labels list log-every "
    "quiet seed shards summary summary-every threads trace verbose ";
/// Those of the ranks. No bit depends on them if the order of sums is canonical.
constexpr std::string_view kOfRanks = " bucket-mb reducer shares ";

bool has(std::string_view names, const std::string& name) {
  return names.find(" " + name + " ") != names.npos;
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

/// The first sentence of the program's own, else the last of the output, without the program's
/// name.
std::string error_in(const std::string& output, const std::string& program) {
  std::string last = "it wrote no reason";
  for (const std::string& line : lines_of(output)) {
    if (!line.empty()) last = line;
    if (!line.starts_with(program + ": ")) continue;
    // Advice for the program's own command line is left out. --data is an option here too.
    const std::string reason = line.substr(program.size() + 2);
    return reason.find("--data") == reason.npos ? reason.substr(0, reason.find(". ")) : reason;
  }
  return last;
}

[[noreturn]] void fail_scratch(const char* what, const fs::path& path,
                               const std::error_code& error) {
  throw Error(
      fmt::format("cannot {} {}: {}. Pass --scratch DIR.", what, path.string(), error.message()),
      kExitStorage);
}

constexpr const char* kScratch = "lockstep-verify-";

/// The descriptor of a folder of this user that no process has locked, now locked; -1: it is none.
int lock_folder(const fs::path& folder) {
  // Programs that this one starts keep the lock: they may outlive it for a moment.
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  struct stat status = {};
  if (file >= 0 && ::fstat(file, &status) == 0 && status.st_uid == ::geteuid() &&
      ::flock(file, LOCK_EX | LOCK_NB) == 0)
    return file;
  ::close(file);
  return -1;
}

/// Runs `words` with stdout and stderr in `output`, in a process group of its own. The program
/// gets SIGTERM if this process ends, even by SIGKILL, and for the first of `signals`. A second
/// one kills its group. Returns the exit code. Throws Error if it cannot be started, or if a signal
/// ended it or this program. The thread that calls it outlives the program.
int run_program(const std::vector<std::string>& words, const fs::path& output,
                const Signals& signals) {
  const int file = ::open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const pid_t pid = spawn({.words = words, .output = file});
  ::close(file);
  require(pid > 0, "cannot start {}: {}. End other programs.", words.front(), std::strerror(errno));
  int status = 0;
  // A thread of Signals receives all signals, so they interrupt no call here. The loop looks for
  // them, and for the end of the program.
  for (std::int64_t sent = 0; ::waitpid(pid, &status, WNOHANG) == 0;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const std::int64_t received = std::min<std::int64_t>(signals.received(), 2);
    if (received > sent && received == 1) ::kill(pid, SIGTERM);
    if (received > sent && received == 2) ::kill(-pid, SIGKILL);
    sent = received;
  }
  require(!signals.stop_requested(), "a signal stopped the replay. Start it again.");
  if (WIFSIGNALED(status))
    fail("a signal ended {} ({}). Start it again.", words.front(), ::strsignal(WTERMSIG(status)));
  require(WEXITSTATUS(status) != 127, "cannot start {}. Install it, or correct the PATH.",
          words.front());  // spawn()
  return WEXITSTATUS(status);
}

bool is_of_classes(const LoggedValue& value) { return value.name.starts_with("classes "); }

/// The starts of the run, and one more at the step of evaluation.json if the log has a later
/// evaluation of `stretch`: the run was killed before it wrote that of the later one.
std::vector<LoggedFacts> starts_in(const RunLog& run, const Stretch& stretch) {
  std::vector<LoggedFacts> starts = run.starts;
  const auto classes = std::ranges::find_if(run.values, is_of_classes);
  if (classes == run.values.end() || !stretch.contains(classes->step)) return starts;
  const bool later = std::ranges::any_of(run.values, [&](const LoggedValue& value) {
    return value.name == "evaluation top1" && value.step > classes->step &&
           value.step <= stretch.end;
  });
  const auto next = std::ranges::upper_bound(starts, classes->step, {}, &LoggedFacts::step);
  if (later && next != starts.begin())
    starts.insert(next, {classes->step, std::prev(next)->facts, classes->place});
  return starts;
}

}  // namespace

ScratchFolder::ScratchFolder(const fs::path& parent)
    : path(fs::absolute(parent) / (kScratch + unique_hex(8))) {
  std::error_code error, none;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, none)) {
    if (!entry.path().filename().string().starts_with(kScratch)) continue;
    if (const int stale = lock_folder(entry.path()); stale >= 0) {
      fs::remove_all(entry.path(), none);
      ::close(stale);
    }
  }
  // Another process may look for folders without a lock, so this one gets its name afterwards.
  const fs::path fresh = path.parent_path() / ("new-" + path.filename().string());
  fs::create_directory(fresh, error);
  lock_ = lock_folder(fresh);
  if (!error) fs::rename(fresh, path, error);
  if (error) fail_scratch("create", path, error);
}

ScratchFolder::~ScratchFolder() {
  std::error_code none;
  fs::remove_all(path, none);
  ::close(lock_);
}

Replay::Replay(const RunLog& run, const RunFacts& facts, const ReplayOptions& options,
               const Signals& signals)
    : run_(run),
      facts_(facts),
      options_(options),
      signals_(signals),
      program_(fs::absolute(program_of(options.program, facts))),
      scratch_(options.scratch.empty() ? fs::temp_directory_path() : fs::path(options.scratch)) {
  // A replay is no start of lockstep_run, whose variables may be set around this program. Variables
  // for mpirun that the user has set stay.
  for (const char* name :
       {"LOCKSTEP_RUN", "LOCKSTEP_CHANGE", "LOCKSTEP_CHANGED_AT", "LOCKSTEP_SUPERVISOR"})
    ::unsetenv(name);
  for (const auto& [name, value] :
       mpirun_environment({{"", 0, ranks()}}, usable_cores(), owns_machine()))
    ::setenv(name.c_str(), value.c_str(), /*overwrite=*/0);
}

/// Whether the weights do not depend on the number of ranks.
bool Replay::is_canonical(const RunFacts& start) const {
  const RunFacts::Json sums = (start.has("sums") ? start : facts_).value("sums");
  return sums.is_object() && sums.value("canonical", RunFacts::Json()) == true;
}

int Replay::ranks_of(const RunFacts& start) const {
  const auto positive = [&](const char* name) {
    return static_cast<int>(std::clamp<std::int64_t>(start.number(name), 1, 1 << 16));
  };
  // A canonical order allows any number of ranks. Any other order needs those of the run, even if
  // this machine has fewer cores.
  const int before = positive("ranks");
  const bool canonical = is_canonical(start);
  if (!canonical && options_.ranks > 0 && options_.ranks != before)
    fail_usage("the order of the run's sums depends on its {} ranks. Omit --np.", before);
  if (!canonical) return before;
  if (options_.ranks > 0) return options_.ranks;
  return std::clamp(usable_cores() / positive("threads"), 1, before);
}

/// The options of a start, with those that decide bits as they were. A string or a list in JSON is
/// one in TOML too. Throws Error for an option that may not reach the program.
std::string Replay::config(const RunFacts& start, bool resumes) const {
  const RunFacts& last = run_.starts.back().facts;  // it knows the place of the data
  const RunFacts::Json options = start.value("options");
  const std::string network = facts_.text("network");
  std::string config;
  const auto set = [&](const std::string& name, const RunFacts::Json& value) {
    config += fmt::format("{}={}\n", name, value.dump());
  };
  for (const auto& [name, value] : options.items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : "";
    // A part that resumes goes on in the copy, so it does not begin from another file.
    const bool begins = name == "resume" || name == "init";
    // Portable arithmetic has the same bits on every instruction set, so this machine may use its
    // own.
    if (has(kLeftOut, name) || (is_canonical(start) && has(kOfRanks, name)) ||
        (name == "isa" && facts_.portable()) || (name == "model" && !network.empty()) ||
        (begins && (resumes || text == "auto" || text == "never")))
      continue;
    const bool reads = (name == "class-weights" && text != "balanced") ||
                       (name == "model" && text.ends_with(".toml"));
    if (!options_.trusted && (reads || !(has(kPassed, name) || has(kOfRanks, name))))
      fail("the run has --{} {}, which may name a file. Pass --trusted to use it.", one_line(name),
           one_line(value.dump()));
    set(name, value);
  }
  for (const char* name : {"seed", "shards", "threads"}) set(name, start.value(name).dump());
  set("global-batch", start.value("global_batch").dump());
  RunFacts::Json data = last.option("data");
  if (!options_.data.empty()) data = fmt::format("{}", fmt::join(options_.data, "\n"));
  if (!data.is_null()) set("data", data);
  if (!last.option("labels").is_null()) set("labels", last.option("labels"));
  // Checkpoints are saved only where kReplayVariable asks for them. The mean of an epoch needs each
  // step in the log.
  return config + "quiet=true\nkeep=2\nlog-every=1\ncheckpoint-every=\"1000000000s\"\n" +
         "summary-every=0\n";
}

/// Trains with the options of a start, as far as the variables of the environment say.
void Replay::run_start(const RunFacts& start, bool resumes, Replayed& result) {
  std::string options = config(start, resumes);
  if (const std::string& network = facts_.text("network"); !network.empty()) {
    // Its name is the model's.
    const fs::path file =
        scratch_.path / (fs::path(facts_.text("model")).filename().string() + ".toml");
    replace_file(file, network);
    options += fmt::format("model={}\n", RunFacts::Json(file.string()).dump());
  }
  // Without an ending, because the network may have any name that ends with .toml.
  const fs::path file = scratch_.path / "options", output = scratch_.path / "output";
  replace_file(file, options);
  std::vector<std::string> words = {program_.string(), "--config", file.string(), "--run",
                                    copy_.string()};
  if (resumes) words.insert(words.end(), {"--resume", "auto"});
  const int ranks = ranks_of(start);
  if (ranks > 1) words = mpirun_words({.words = words, .mpirun = {}}, ranks, "", {});
  result.code = run_program(words, output, signals_);
  if (result.code != kExitSuccess && result.code != kExitRequeue)
    result.error = error_in(read_file(output).value_or(""), facts_.text("program"));
}

Replayed Replay::run(const ReplaySpec& spec) {
  const Stretch& stretch = spec.stretch;
  std::error_code error;
  fs::remove_all(copy_, error);
  copy_ = scratch_.path / fmt::format("step-{}", stretch.begin);
  const fs::path files = copy_ / "checkpoints";
  fs::create_directories(files, error);
  if (!error && !spec.best.empty()) fs::copy_file(spec.best, files / kBestFile, error);
  if (!error && !spec.checkpoint.empty())
    fs::copy_file(spec.checkpoint, files / checkpoint_name(stretch.begin), error);
  if (error) fail_scratch("copy a checkpoint to", copy_, error);
  Replayed result;
  std::vector<LoggedValue> classes;
  const std::vector<LoggedFacts> starts = starts_in(run_, stretch);
  bool resumes = !spec.checkpoint.empty();
  // Each start of the run may have had other options. So each is replayed with its own, up to the
  // step at which the next one began.
  for (std::size_t i = 0; i < starts.size() && result.code == kExitSuccess; ++i) {
    const std::int64_t next = i + 1 < starts.size() ? starts[i + 1].step : stretch.end;
    const Stretch part{std::max(stretch.begin, starts[i].step), std::min(stretch.end, next)};
    if (part.begin >= part.end) continue;
    std::set<std::int64_t> steps{part.end};
    for (const std::int64_t step : spec.steps)
      if (part.contains(step)) steps.insert(step);
    const std::string folder = copy_.lexically_normal().string();
    ::setenv(kReplayVariable, fmt::format("{}:{}", folder, fmt::join(steps, ",")).c_str(), 1);
    ::setenv(kLeavesVariable, part.end == stretch.end ? spec.leaves.c_str() : "", 1);
    try {
      run_start(starts[i].facts, resumes, result);
    } catch (const Error& refused) {
      if (signals_.stop_requested()) throw;
      return {.code = kExitData, .error = refused.what()};
    }
    if (result.code == kExitRequeue) {
      // A replay stops as on request. A user may have sent one before its end.
      if (is_gone(files / checkpoint_name(part.end)))
        return {.code = kExitData, .error = "a signal stopped it. Start verify_run again"};
      result.code = kExitSuccess;
    }
    resumes = true;
    if (part.end == stretch.end) break;
    // The next start replaces evaluation.json, so its values are read in between.
    std::ranges::copy_if(read_log(copy_).values, std::back_inserter(classes), is_of_classes);
  }
  result.log = read_log(copy_);
  result.log.values.insert(result.log.values.begin(), classes.begin(), classes.end());
  const fs::path last = files / checkpoint_name(stretch.end);
  if (!is_gone(last)) add_checkpoint(last, result.log);
  result.samples = read_file(copy_ / kFingerprints).value_or("");
  if (auto facts = stored_facts(copy_)) result.facts = *facts;
  return result;
}

}  // namespace lockstep
