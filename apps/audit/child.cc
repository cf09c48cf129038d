#include "apps/audit/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "src/base/check.h"

namespace lockstep {
namespace {

constexpr int kNotStarted = 127;  // exit code, as that of a shell

/// After fork(): only calls that are safe there.
[[noreturn]] void become(char** argv, const char* output, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(kExitFailure);  // it has ended meanwhile
  ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
  const int file = ::open(output, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::dup2(file, STDOUT_FILENO);
  ::dup2(file, STDERR_FILENO);
  sigset_t none;  // this program blocks signals, which the other needs
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execvp(argv[0], argv);
  ::_exit(kNotStarted);
}

}  // namespace

int run_program(const std::vector<std::string>& words, const std::filesystem::path& output,
                const Signals& signals) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = ::getpid(), pid = ::fork();
  if (pid == 0) become(argv.data(), output.c_str(), parent);
  require(pid > 0, "cannot start {}: {}. End other programs.", words.front(), std::strerror(errno));
  ::setpgid(pid, pid);
  int status = 0;
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
  require(WEXITSTATUS(status) != kNotStarted, "cannot start {}. Install it, or correct the PATH.",
          words.front());
  return WEXITSTATUS(status);
}

}  // namespace lockstep
