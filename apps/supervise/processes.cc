#include "apps/supervise/processes.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <netdb.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "apps/supervise/host_ranks.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/machine.h"
#include "src/base/text.h"

// All waiting is in wait(): one poll() over the descriptor of signals and the pipes of the agents.
// There is no handler and no second thread, so no state needs a lock.
namespace lockstep {
namespace {

constexpr std::string_view kAnswer = "lockstep answers";  ///< the last line of a host that answers
constexpr std::size_t kAtOnce = 64;                       ///< hosts that are asked at the same time

/// Whether `host`, a name or an address, is this host. An empty name is. May ask a name server.
bool is_this_host(const std::string& host) {
  if (host.empty() || host == kThisHost || host == host_name()) return true;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, nullptr, &found) != 0) return false;
  bool result = false;
  // A socket gets no address of another host. No interface lists 127.0.1.1, which Debian gives to
  // the host's own name, but a socket gets it.
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const int file = ::socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    result = result || ::bind(file, one->ai_addr, one->ai_addrlen) == 0;
    ::close(file);
  }
  ::freeaddrinfo(found);
  return result;
}

bool is_unread_pipe(int descriptor) {
  pollfd state{descriptor, POLLOUT, 0};
  return ::poll(&state, 1, 0) > 0 && (state.revents & POLLERR) != 0;
}

/// A descriptor of a file in memory with `text`, which child processes inherit; -1: no text.
int open_memory(const std::string& text) {
  if (text.empty()) return -1;
  const int file = ::memfd_create("hosts", 0);
  if (file < 0 || ::write(file, text.data(), text.size()) != std::ssize(text))
    fail("cannot pass the hosts to mpirun: {}. Free some memory.", std::strerror(errno));
  return file;
}

}  // namespace

pid_t spawn(const Child& child) {
  // A parent that ignored it handed that on: then no child has an exit code to wait for.
  ::signal(SIGCHLD, SIG_DFL);
  std::vector<char*> argv;
  for (const std::string& word : child.words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = ::getpid(), pid = ::fork();
  // Parent and child both set the group, because either of them may run first.
  if (pid > 0) ::setpgid(pid, pid);
  if (pid != 0) return pid;
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, child.at_end_of_parent);
  if (::getppid() != parent) ::_exit(kExitFailure);  // it has ended meanwhile
  for (const auto& [name, value] : child.environment) ::setenv(name.c_str(), value.c_str(), 1);
  const int null = ::open("/dev/null", O_RDWR);
  ::dup2(null, STDIN_FILENO);
  if (child.output >= 0) ::dup2(child.output, STDOUT_FILENO);
  if (child.output >= 0) ::dup2(child.output, STDERR_FILENO);
  ::pthread_sigmask(SIG_SETMASK, &child.blocked, nullptr);
  ::execvp(argv.front(), argv.data());
  print_error(fmt::format("lockstep_run: cannot start {}: {}. Install it, or correct the PATH.\n",
                          argv.front(), std::strerror(errno)));
  ::_exit(127);
}

Processes::Processes(Command command, const std::vector<Host>& hosts)
    : command_(std::move(command)),
      id_(unique_hex(8)),
      messages_(::memfd_create("mpirun", 0)),
      limit_(std::getenv("SLURM_JOB_ID") == nullptr ? kLimit : kSlurmLimit) {
  for (const Host& host : hosts) {
    local_[host.name] = is_this_host(host.name);
    unasked_.insert(host.name);
  }
  sigset_t blocked = {};
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGCHLD}) sigaddset(&blocked, signal);
  ::pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  signals_ = ::signalfd(-1, &blocked, SFD_CLOEXEC | SFD_NONBLOCK);
}

Processes::~Processes() {
  end_questions();
  for (Question& question : late_) finish(question);
  if (mpirun_ > 0) ::kill(mpirun_, SIGUSR1);
  ::close(signals_);
  ::close(messages_);
}

double Processes::now() { return now_seconds(); }

void Processes::start(const std::vector<HostRange>& wanted, const Change& change, int number) {
  std::vector<HostRange> shares = wanted;
  // This host may have lost its network, and then mpirun does not know its name. SLURM's mpirun
  // takes only names of the allocation.
  if (shares.size() == 1 && local_.at(shares.front().host) && !shares.front().host.empty() &&
      std::getenv("SLURM_JOB_ID") == nullptr)
    shares.front().host = kThisHost;
  former_steps_ = step_files(id_);
  std::map<std::string, std::string> own = {{kSupervisor, id_},
                                            {"LOCKSTEP_START", std::to_string(number)}};
  if (!run_.empty()) own["LOCKSTEP_RUN"] = run_;
  if (!change.what.empty()) {
    own["LOCKSTEP_CHANGE"] = change.what;
    // The ranks of other hosts cannot read this clock, so they get the time of day.
    const std::chrono::duration<double> clock = std::chrono::system_clock::now().time_since_epoch();
    own["LOCKSTEP_CHANGED_AT"] = fmt::format("{:.3f}", clock.count() - (now() - change.at));
  }
  std::set<std::string> names;
  for (const auto& [name, value] : own) names.insert(name);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string name(*entry, std::strcspn(*entry, "="));
    if (name.starts_with("LOCKSTEP_") || name.starts_with("NCCL_")) names.insert(name);
  }
  std::map<std::string, std::string> environment =
      mpirun_environment(shares, usable_cores(), owns_machine());
  environment.merge(own);
  segments_.clear();
  constexpr double kLooks = 120;  // ranks that have none by then send messages instead
  last_look_ = now() + kLooks;
  ended_ = was_stopped_ = ranks_run_ = false;
  next_look_at_ranks_ = 0;
  const int hosts = open_memory(hostfile_text(shares));
  const std::string file = hosts < 0 ? "" : fmt::format("/proc/self/fd/{}", hosts);
  // mpirun answers these by killing the ranks at once. They may reach all processes of a job at the
  // same time, and the ranks need time for a checkpoint. So mpirun gets only requests.
  std::vector<std::string> words = mpirun_words(command_, rank_count(shares), file, names);
  collect_messages(messages_, environment, words);
  Child mpirun{.words = words, .environment = std::move(environment), .at_end_of_parent = SIGUSR1};
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&mpirun.blocked, signal);
  has_local_ranks_ = std::ranges::any_of(shares, [this](const HostRange& share) {
    return share.host == kThisHost || local_.at(share.host);
  });
  mpirun_ = spawn(mpirun);
  const int error = errno;
  if (hosts >= 0) ::close(hosts);
  if (mpirun_ < 0) fail("cannot start mpirun: {}. End other programs.", std::strerror(error));
}

void Processes::send(int signal) {
  next_look_ = 0;  // the ranks may end before the next look
  find_segments();
  if (mpirun_ <= 0) return;
  ::kill(mpirun_, signal);
  // A stopped mpirun passes nothing on, and a stopped rank answers nothing. Others must not get it:
  // mpirun of Open MPI 4 may end with 0 at its start.
  for (const int pid : stopped_of(id_)) ::kill(pid, SIGCONT);
}

void Processes::ask(const std::vector<std::string>& hosts) {
  std::string command = ended_ ? clearing_command(id_, segments_) : stopped_command(id_);
  command += steps_command(id_);
  ask(hosts, command);
  for (Question& question : questions_) {
    // This host answers without an agent, and even if it has lost its network.
    if (!local_.at(question.answer.host)) continue;
    question.done = question.answer.answers = true;
    question.answer.step = step();
    question.answer.stopped = !stopped_of(id_).empty();
  }
}

void Processes::ask(const std::vector<std::string>& hosts, const std::string& command) {
  end_questions();
  asked_ = true;
  for (const std::string& host : hosts)
    questions_.push_back(
        {.answer = {.host = host}, .command = fmt::format("{}echo; echo {}", command, kAnswer)});
}

/// Puts the next questions, and gives up on those without an answer.
void Processes::advance() {
  std::size_t open = 0;
  for (Question& question : questions_) {
    if (question.pipe >= 0 && !question.done && now() >= question.began + limit_) {
      question.late = question.done = true;
      if (ended_) finish(question);  // it kills ranks, which later may be those of the next start
    }
    open += question.pipe >= 0 && !question.done;
  }
  for (Question& question : questions_) {
    if (question.done || question.pipe >= 0 || open >= kAtOnce) continue;
    if (put(question)) {
      ++open;
    } else if (open == 0) {
      // The shortage is this process's own. It says nothing about the host.
      if (!std::exchange(told_, true))
        tell("cannot ask hosts: the limits of processes or descriptors are too low. Raise them.");
      question.answer.answers = question.done = true;
    }
  }
}

/// False: there is no process or no pipe for it.
bool Processes::put(Question& question) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return false;
  const std::vector<std::string> words = remote_words(question.answer.host, question.command);
  question.pid = spawn({.words = words, .output = ends[1]});
  ::close(ends[1]);
  question.pipe = ends[0];
  question.began = now();
  if (question.pid > 0) return true;
  ::close(std::exchange(question.pipe, -1));
  return false;
}

void Processes::finish(Question& question) {
  question.done = true;
  if (question.pipe >= 0) ::close(std::exchange(question.pipe, -1));
  if (question.pid > 0) ::kill(-question.pid, SIGKILL);
}

void Processes::read(Question& question) {
  char bytes[1024];
  const ssize_t count = ::read(question.pipe, bytes, sizeof bytes);
  if (count > 0) question.text.append(bytes, count);
  Answer& answer = question.answer;
  answer.answers = question.text.find(kAnswer) != std::string::npos;
  if (count > 0 && !answer.answers) return;
  if (answer.answers) limit_ = std::max(limit_, std::min(2 * (now() - question.began), kMostLimit));
  bool after_step = false;
  for (const std::string& line : lines_of(question.text)) {
    // Lines of the agent may begin with a number or a path too. A step is a whole line, and the
    // folder of the run follows it.
    if (after_step && line.starts_with('/')) run_ = line;
    after_step = !line.empty() && line.find_first_not_of("0123456789") == line.npos;
    if (after_step) answer.step = std::max(answer.step, step_in(line));
    answer.stopped = answer.stopped || line == kRankStopped;
  }
  question.done = true;
  ::close(std::exchange(question.pipe, -1));
}

Machines::Event Processes::wait(double seconds) {
  Event event;
  const double end = now() + seconds;
  for (bool first = true;; first = false) {
    advance();
    if (asked_ && std::ranges::all_of(questions_, &Question::done)) {
      for (const Question& question : questions_) {
        event.answers.push_back(question.answer);
        // An agent may be slow. It is asked again, except after the end of a start.
        if ((!question.late || ended_) && unasked_.erase(question.answer.host) > 0 &&
            !question.answer.answers && step() < 0)
          tell(silence_text(question.answer.host, question.text));
      }
      if (ended_ && step() < 0 && std::ranges::all_of(event.answers, &Answer::answers))
        print_error(take_reason(messages_));
      end_questions();
    }
    const bool done = event.ended || event.signal != 0 || !event.answers.empty();
    // Even with 0 seconds it looks once at the descriptors.
    if (done || (!first && now() >= end)) return event;
    find_segments();
    std::vector<pollfd> files = {{signals_, POLLIN, 0}};
    double until = end;
    for (const std::vector<Question>* const all : {&questions_, &late_})
      for (const Question& question : *all) files.push_back({question.pipe, POLLIN, 0});
    for (const Question& question : questions_)
      if (question.pipe >= 0 && !question.done) until = std::min(until, question.began + limit_);
    ::poll(files.data(), files.size(),
           static_cast<int>(std::ceil(1000 * std::max(0.0, until - now()))));
    const std::size_t asked = questions_.size();
    for (std::size_t i = 0; i + 1 < files.size(); ++i)
      if (files[i + 1].revents != 0) read(i < asked ? questions_[i] : late_[i - asked]);
    clear_late();
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
  for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0;) {
    if (WIFSTOPPED(status)) {
      was_stopped_ = was_stopped_ || pid == mpirun_;
      continue;
    }
    for (std::vector<Question>* const all : {&questions_, &late_})
      for (Question& question : *all)
        if (question.pid == pid) question.pid = 0;
    if (pid != mpirun_) continue;
    mpirun_ = 0;
    ended_ = true;
    // At once, before a new start can meet these ranks or their files.
    clear_host(id_, segments_);
    if (status == 0) take_reason(messages_);
    event.ended =
        WIFSIGNALED(status) ? End{128 + WTERMSIG(status), true} : End{WEXITSTATUS(status)};
    event.ended->was_stopped = was_stopped_;
    // mpirun may turn the signal into a failure.
    if (event.ended->code == kExitFailure && is_unread_pipe(STDOUT_FILENO))
      event.ended = {128 + SIGPIPE, true};
  }
}

void Processes::find_segments() {
  const double time = now();
  if (mpirun_ == 0 || !segments_.empty() || time < next_look_ || time > last_look_) return;
  constexpr double kLook = 0.2;
  next_look_ = time + kLook;
  for (const int pid : processes_of(id_)) segments_.merge(segments_of(pid));
}

bool Processes::ranks_run() {
  constexpr double kLook = 0.5, kFirstLook = 0.1;  // a rank may be gone soon
  if (!has_local_ranks_) return true;
  if (now() < next_look_at_ranks_) return ranks_run_;
  next_look_at_ranks_ = now() + (ranks_run_ ? kLook : kFirstLook);
  return ranks_run_ = std::ranges::any_of(processes_of(id_), is_rank);
}

void Processes::end_questions() {
  for (Question& question : questions_) {
    // Its answer may still come, and then raises the limit.
    if (question.late && question.pipe >= 0) {
      late_.push_back(std::move(question));
    } else {
      finish(question);
    }
  }
  questions_.clear();
  asked_ = false;
}

void Processes::clear_late() {
  std::erase_if(late_, [&](Question& question) {
    if (question.pipe >= 0 && now() < question.began + kMostLimit) return false;
    finish(question);
    return true;
  });
}

std::int64_t Processes::step() {
  std::int64_t step = -1;
  for (const auto& [file, state] : step_files(id_)) {
    run_ = state.second.substr(std::min(state.second.find('/'), state.second.size()));
    const auto former = former_steps_.find(file);
    if (former == former_steps_.end() || former->second != state)
      step = std::max(step, step_in(state.second));
  }
  return step;
}

void Processes::forget() {
  forget_states(id_);
  std::vector<std::string> others;
  for (const auto& [host, local] : local_)
    if (!local) others.push_back(host);
  ask(others, forgetting_command(id_));
  while (asked_) wait(kLimit);
}

void Processes::tell(const std::string& line) {
  print_error(
      fmt::format("lockstep_run: {:%H:%M:%S} {}\n", fmt::localtime(std::time(nullptr)), line));
}

}  // namespace lockstep
