#include "apps/supervise/processes.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <glob.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <regex>
#include <set>
#include <utility>

#include "apps/supervise/this_host.h"
#include "src/base/check.h"
#include "src/base/machine.h"
#include "src/base/process.h"
#include "src/base/text.h"
#include "src/files/file.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// The last write and the text of each file.
using StepFiles = std::map<fs::path, std::pair<fs::file_time_type, std::string>>;

constexpr std::string_view kMemory = "/dev/shm";
constexpr const char* kSupervisor = "LOCKSTEP_SUPERVISOR";
constexpr std::string_view kRankStopped = "a rank is stopped";
constexpr std::string_view kAnswer = "lockstep answers";  ///< the last line of a host that answers

/// The folders of the run in this host's memory.
std::vector<fs::path> memory_folders(const std::string& name) {
  std::vector<fs::path> folders;
  std::error_code none;
  for (fs::directory_iterator entry(kMemory, none), end; !none && entry != end;
       entry.increment(none)) {
    if (entry->path().filename().string().starts_with(name + "-")) folders.push_back(entry->path());
  }
  return folders;
}

StepFiles step_files(const std::string& name) {
  StepFiles files;
  constexpr std::uint64_t kMost = 32;
  for (const fs::path& folder : memory_folders(name)) {
    const fs::path file = folder / "step";
    std::error_code none;
    const auto text = read_file(file, kMost);
    if (text) files[file] = {fs::last_write_time(file, none), *text};
  }
  return files;
}

/// The number at the beginning of `text`; -1: there is none.
std::int64_t step_in(std::string_view text) {
  std::int64_t step = -1;
  std::from_chars(text.data(), text.data() + text.size(), step);
  return step;
}

/// The value of `name` in the environment of process `pid`; nothing: it is not set.
std::optional<std::string> variable_of(const std::string& pid, const std::string& name) {
  std::ifstream file("/proc/" + pid + "/environ", std::ios::binary);
  for (std::string entry; std::getline(file, entry, '\0');)
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  return {};
}

/// The processes of this host with this LOCKSTEP_SUPERVISOR: the ranks.
std::vector<std::string> ranks_of(const std::string& id) {
  std::vector<std::string> pids;
  std::error_code none;
  for (fs::directory_iterator entry("/proc", none), end; !none && entry != end;
       entry.increment(none)) {
    const std::string pid = entry->path().filename().string();
    if (std::isdigit(static_cast<unsigned char>(pid[0])) && variable_of(pid, kSupervisor) == id)
      pids.push_back(pid);
  }
  return pids;
}

/// Patterns of the files that Open MPI shares between the ranks of a host, if process `pid` maps
/// one: "vader_segment.*.UID.JOB.*" (Open MPI 4) or "sm_segment.*.UID.JOB.*" (Open MPI 5).
std::set<std::string> segments_of(const std::string& pid) {
  static const std::regex file(R"(/dev/shm/((?:vader|sm)_segment)\.\S+(\.\d+\.[0-9a-f]+)\.\d+$)");
  std::set<std::string> patterns;
  std::ifstream maps("/proc/" + pid + "/maps");
  std::smatch found;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("_segment.") != line.npos && std::regex_search(line, found, file))
      patterns.insert(fmt::format("{}.*{}.*", found.str(1), found.str(2)));
  }
  return patterns;
}

/// A command for a host after a start has ended. It ends ranks that still run, and removes the
/// shared memory of Open MPI, which mpirun leaves behind if it is killed.
std::string clearing_command(const std::string& id, const std::set<std::string>& segments) {
  std::string command = fmt::format(
      "for f in $(grep -slz '^{}={}$' /proc/[0-9]*/environ); do p=${{f#/proc/}}; kill -9 "
      "${{p%%/*}}; done 2>/dev/null; ",
      kSupervisor, id);
  for (const std::string& pattern : segments)
    command += fmt::format("rm -f {}/{}; ", kMemory, pattern);
  return command;
}

/// A descriptor of a file in memory with `text`, which child processes inherit; -1: no text.
int open_memory(const std::string& text) {
  if (text.empty()) return -1;
  const int file = ::memfd_create("hosts", 0);
  if (file < 0 || ::write(file, text.data(), text.size()) != std::ssize(text))
    fail("cannot pass the hosts to mpirun: {}. Free some memory.", std::strerror(errno));
  return file;
}

/// A command for a host while ranks run: prints kRankStopped if a signal has stopped one.
std::string stopped_command(const std::string& id) {
  return fmt::format(
      "for f in $(grep -slz '^{}={}$' /proc/[0-9]*/environ); do "
      "grep -qs '^State:.T' ${{f%environ}}status && echo {}; done; ",
      kSupervisor, id, kRankStopped);
}

/// Starts `words` in a process group of its own. It gets no signals from the terminal and reads
/// nothing. `output`: its standard output and error; -1: those of this process. `follows`: it ends
/// with this process.
pid_t spawn(const std::vector<std::string>& words,
            const std::map<std::string, std::string>& environment, const sigset_t& blocked,
            int output, bool follows) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = ::getpid(), pid = ::fork();
  if (pid < 0)
    fail("cannot start {}: {}. End other programs.", words.front(), std::strerror(errno));
  if (pid > 0) {
    ::setpgid(pid, pid);
    return pid;
  }
  ::setpgid(0, 0);
  if (follows) ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (follows && ::getppid() != parent) ::_exit(kExitFailure);  // it has ended meanwhile
  for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
  const int null = ::open("/dev/null", O_RDWR);
  ::dup2(null, STDIN_FILENO);
  if (output >= 0) ::dup2(output, STDOUT_FILENO);
  if (output >= 0) ::dup2(output, STDERR_FILENO);
  ::pthread_sigmask(SIG_UNBLOCK, &blocked, nullptr);
  ::execvp(argv.front(), argv.data());
  print_error(fmt::format("lockstep_run: cannot start {}: {}. Install it, or correct the PATH.\n",
                          words.front(), std::strerror(errno)));
  ::_exit(127);
}

}  // namespace

Processes::Processes(Command command, const std::vector<Host>& hosts)
    : command_(std::move(command)),
      memory_(memory_name(command_.words)),
      id_(unique_hex(8)),
      cores_(usable_cores()),
      fills_(owns_machine()),
      messages_(::memfd_create("mpirun", 0)) {
  for (const Host& host : hosts) {
    local_[host.name] = is_this_host(host.name);
    unasked_.insert(host.name);
  }
  sigemptyset(&blocked_);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGCHLD}) sigaddset(&blocked_, signal);
  ::pthread_sigmask(SIG_BLOCK, &blocked_, nullptr);
  signals_ = ::signalfd(-1, &blocked_, SFD_CLOEXEC | SFD_NONBLOCK);
}

Processes::~Processes() {
  end_questions();
  if (mpirun_ > 0) ::kill(mpirun_, SIGTERM);
  ::close(signals_);
  ::close(messages_);
}

double Processes::now() {
  timespec time = {};
  ::clock_gettime(CLOCK_REALTIME, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void Processes::start(const std::vector<HostRange>& wanted, const Change& change, int number) {
  std::vector<HostRange> shares = wanted;
  // This host may have lost its network, and then mpirun does not know its name. SLURM's mpirun
  // takes only names of the allocation.
  if (shares.size() == 1 && is_local(shares.front().host) && !shares.front().host.empty() &&
      std::getenv("SLURM_JOB_ID") == nullptr)
    shares.front().host = kThisHost;
  former_steps_ = step_files(memory_);
  std::map<std::string, std::string> own = {
      {"LOCKSTEP_MEMORY", memory_}, {kSupervisor, id_}, {"LOCKSTEP_START", std::to_string(number)}};
  if (!change.what.empty()) {
    own["LOCKSTEP_CHANGE"] = change.what;
    own["LOCKSTEP_CHANGED_AT"] = fmt::format("{:.3f}", change.at);
  }
  std::vector<std::string> names;
  for (const auto& [name, value] : own) names.push_back(name);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string name(*entry, std::strcspn(*entry, "="));
    if ((name.starts_with("LOCKSTEP_") || name.starts_with("NCCL_")) && own.count(name) == 0)
      names.push_back(name);
  }
  std::map<std::string, std::string> environment = mpirun_environment(shares, cores_, fills_);
  environment.merge(own);
  segments_.clear();
  constexpr double kLooks = 120;  // ranks that have none by then send messages instead
  last_look_ = now() + kLooks;
  ended_ = false;
  const int hosts = open_memory(hostfile_text(shares));
  const std::string file = hosts < 0 ? "" : fmt::format("/proc/self/fd/{}", hosts);
  std::vector<std::string> words = mpirun_words(command_, rank_count(shares), file, names);
  collect_messages(messages_, environment, words);
  mpirun_ = spawn(words, environment, blocked_, -1, true);
  if (hosts >= 0) ::close(hosts);
}

void Processes::send(int signal) {
  if (mpirun_ > 0) ::kill(mpirun_, signal);
}

void Processes::ask(const std::vector<std::string>& hosts) {
  end_questions();
  const bool slurm = std::getenv("SLURM_JOB_ID") != nullptr;
  limit_ = now() + (slurm ? kSlurmLimit : kLimit);
  asked_ = true;
  for (const std::string& host : hosts) {
    questions_.push_back({.answer = {.host = host}});
    Question& question = questions_.back();
    if (is_local(host)) {
      question.answer.answers = true;
      question.answer.step = step();
      question.answer.stopped = std::ranges::any_of(ranks_of(id_), [](const std::string& pid) {
        return Process(std::stoi(pid), 0).condition() == Condition::stopped;
      });
    } else {
      put(question, fmt::format("{}cat {}/{}-*/step 2>/dev/null; echo; echo {}",
                                ended_ ? clearing_command(id_, segments_) : stopped_command(id_),
                                kMemory, memory_, kAnswer));
    }
  }
}

void Processes::put(Question& question, const std::string& command) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return;  // the host counts as silent
  question.pid = spawn(remote_words(question.answer.host, command), {}, blocked_, ends[1], true);
  ::close(ends[1]);
  question.pipe = ends[0];
}

void Processes::read(Question& question) {
  char bytes[1024];
  const ssize_t count = ::read(question.pipe, bytes, sizeof bytes);
  if (count > 0) question.text.append(bytes, static_cast<std::size_t>(count));
  Answer& answer = question.answer;
  answer.answers = question.text.find(kAnswer) != std::string::npos;
  if (count > 0 && !answer.answers) return;
  for (const std::string& line : lines_of(question.text)) {
    // A line of the agent may begin with a number too.
    if (line.find_first_not_of("0123456789") == line.npos)
      answer.step = std::max(answer.step, step_in(line));
    answer.stopped = answer.stopped || line == kRankStopped;
  }
  ::close(std::exchange(question.pipe, -1));
}

Machines::Event Processes::wait(double seconds) {
  Event event;
  const double end = now() + seconds;
  for (bool first = true;; first = false) {
    const bool silent = asked_ && now() >= limit_;
    const bool open =
        std::ranges::any_of(questions_, [](const Question& q) { return q.pipe >= 0; });
    if (asked_ && (silent || !open)) {
      for (const Question& question : questions_) {
        event.answers.push_back(question.answer);
        note_silence(question);
      }
      if (ended_ && step() < 0 && std::ranges::all_of(event.answers, &Answer::answers))
        print_error(take_reason(messages_));
      end_questions();
    }
    const bool done = event.ended || event.signal != 0 || !event.answers.empty();
    if (done || (!first && now() >= end)) return event;
    std::vector<pollfd> files = {{signals_, POLLIN, 0}};
    for (const Question& question : questions_) files.push_back({question.pipe, POLLIN, 0});
    find_segments();
    const double until = asked_ ? std::min(end, limit_) : end;
    ::poll(files.data(), files.size(),
           static_cast<int>(std::ceil(1000 * std::max(0.0, until - now()))));
    for (std::size_t i = 1; i < files.size(); ++i)
      if (files[i].revents != 0) read(questions_[i - 1]);
    if (files.front().revents != 0) read_signals(event);
  }
}

void Processes::read_signals(Event& event) {
  signalfd_siginfo info = {};
  while (event.signal == 0 && ::read(signals_, &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGCHLD) {
      reap(event);
    } else {
      event.signal = static_cast<int>(info.ssi_signo);
    }
  }
}

void Processes::reap(Event& event) {
  int status = 0;
  for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    for (Question& question : questions_)
      if (question.pid == pid) question.pid = 0;
    if (pid != mpirun_) continue;
    mpirun_ = 0;
    ended_ = true;
    clear_host();
    if (status == 0) take_reason(messages_);
    event.ended =
        WIFSIGNALED(status) ? End{128 + WTERMSIG(status), true} : End{WEXITSTATUS(status)};
  }
}

void Processes::find_segments() {
  const double time = now();
  if (mpirun_ == 0 || !segments_.empty() || time < next_look_ || time > last_look_) return;
  constexpr double kLook = 0.2;
  next_look_ = time + kLook;
  for (const std::string& pid : ranks_of(id_)) segments_.merge(segments_of(pid));
}

/// As clearing_command(), on this host. The ranks may be younger than the last look for segments.
void Processes::clear_host() {
  for (const std::string& pid : ranks_of(id_)) {
    segments_.merge(segments_of(pid));
    ::kill(std::stoi(pid), SIGKILL);
  }
  for (const std::string& pattern : segments_) {
    glob_t found = {};
    if (::glob(fmt::format("{}/{}", kMemory, pattern).c_str(), 0, nullptr, &found) == 0)
      for (std::size_t i = 0; i < found.gl_pathc; ++i) ::unlink(found.gl_pathv[i]);
    ::globfree(&found);
  }
}

void Processes::note_silence(const Question& question) {
  const std::string& host = question.answer.host;
  if (question.pipe >= 0 && !ended_) return;  // its agent may be slow; it is asked again
  if (unasked_.erase(host) > 0 && !question.answer.answers && step() < 0)
    tell(silence_text(host, question.text));
}

void Processes::end_questions() {
  for (Question& question : questions_) {
    if (question.pipe >= 0) ::close(question.pipe);
    if (question.pid > 0) ::kill(-question.pid, SIGKILL);
  }
  questions_.clear();
  asked_ = false;
}

std::int64_t Processes::step() {
  std::int64_t step = -1;
  for (const auto& [file, state] : step_files(memory_)) {
    const auto former = former_steps_.find(file);
    if (former == former_steps_.end() || former->second != state)
      step = std::max(step, step_in(state.second));
  }
  return step;
}

void Processes::forget() {
  std::error_code ignored;
  for (const fs::path& folder : memory_folders(memory_)) fs::remove_all(folder, ignored);
  end_questions();
  for (const auto& [host, local] : local_) {
    if (local) continue;
    questions_.push_back({.answer = {.host = host}});
    put(questions_.back(), fmt::format("rm -rf {}/{}-*; echo {}", kMemory, memory_, kAnswer));
  }
  if (questions_.empty()) return;
  limit_ = now() + kLimit;
  asked_ = true;
  while (asked_) wait(kLimit);
}

void Processes::tell(const std::string& line) {
  print_error(
      fmt::format("lockstep_run: {:%H:%M:%S} {}\n", fmt::localtime(std::time(nullptr)), line));
}

bool Processes::is_local(const std::string& host) const { return local_.at(host); }

}  // namespace lockstep
