// Locks of folders: one holder at a time, also if several come at the same instant. Only the claims
// of dead and silent runs are taken over.
#include "src/files/folder_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>

#include "src/base/machine.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"

namespace {
std::int64_t later = 0;  ///< seconds that the monotonic clock is ahead
}

/// The C library's, which the library calls through this one.
extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_clock_gettime, clock, now));
  if (clock == CLOCK_MONOTONIC) now->tv_sec += later;
  return result;
}

namespace lockstep {
namespace {

using Names = std::vector<std::string>;

class FolderLockTest : public ::testing::Test {
 protected:
  FolderLockTest() {
    later = 0;
    for (const char* name : {"SLURM_JOB_ID", "SLURM_RESTART_COUNT", "SLURM_CLUSTER_NAME"})
      ::unsetenv(name);
  }
  /// The text of a claim by this process, with `fact` changed to `value`.
  std::string text_with(const std::string& fact, const std::string& value) {
    std::string text;
    {
      const FolderLock lock(folder_.path(), "--run");
      text = contents(folder_ / "run.lock.1");
    }
    const std::size_t begin = text.find(fact + " = ") + fact.size() + 3;
    EXPECT_LT(begin, text.size()) << fact;
    return text.replace(begin, text.find('\n', begin) - begin, value);
  }
  void touched_ago(const std::string& name, int seconds) {
    std::filesystem::last_write_time(folder_ / name, std::filesystem::file_time_type::clock::now() -
                                                         std::chrono::seconds(seconds));
  }
  std::string refusal() {
    return error_of([&] { FolderLock(folder_.path(), "--run"); });
  }
  /// From now on no claim in the folder gives a sign of life for `seconds`.
  void pass(std::int64_t seconds) const {
    FolderLock::holder(folder_.path());
    later += seconds;
  }
  void expect_taken_over(const std::string& why) {
    const FolderLock lock(folder_.path(), "--run");
    EXPECT_TRUE(
        mentions(lock.note(), {"took over --run " + folder_.path().string() + " from run"}));
    EXPECT_TRUE(mentions(lock.note(), {why}));
    EXPECT_EQ(folder_.names(), Names{"run.lock.2"});
    lock.require_held();
  }

  const TemporaryDirectory folder_;
};

TEST_F(FolderLockTest, TheSecondRunLearnsTheNameOfTheFirst) {
  {
    FolderLock lock(folder_.path(), "--run");
    EXPECT_EQ(lock.note(), "");
    lock.name_run("4a11");
    const std::string text = refusal();
    for (const std::string& part :
         {"--run " + folder_.path().string() + " is in use by run 4a11 (host " + host_name(),
          fmt::format("process {}, since 20", ::getpid()), std::string("choose another --run")}) {
      EXPECT_TRUE(mentions(text, {part})) << part << " in: " << text;
    }
    EXPECT_TRUE(mentions(FolderLock::holder(folder_.path()), {"run 4a11"}));
    lock.require_held();
    EXPECT_EQ(folder_.names(), Names{"run.lock.1"}) << "a refused run leaves no file";
  }
  EXPECT_EQ(folder_.names(), Names{}) << "released";
  EXPECT_EQ(FolderLock::holder(folder_.path()), "");
  EXPECT_EQ(FolderLock::holder(folder_ / "none"), "");
}

TEST_F(FolderLockTest, ADeadRunIsTakenOver) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  const std::string text = text_with("pid", std::to_string(child));
  put(folder_ / "run.lock.1", text);
  expect_taken_over("its process is gone");  // not reaped yet
  ::waitpid(child, nullptr, 0);
  put(folder_ / "run.lock.1", text);
  expect_taken_over("its process is gone");
}

TEST_F(FolderLockTest, AReusedProcessNumberIsNotTheHolder) {
  put(folder_ / "run.lock.1", text_with("start", "1"));
  expect_taken_over("its process is gone");
}

TEST_F(FolderLockTest, OnAnotherMachineOnlyASilentRunIsTakenOver) {
  put(folder_ / "run.lock.1", text_with("space", "another boot"));
  for (const int ago : {3600, -3600, 0}) {  // the clock may be set at any time
    touched_ago("run.lock.1", ago);
    EXPECT_TRUE(mentions(refusal(), {"is in use by run"}));
    pass(FolderLock::kSilence - 60);
    EXPECT_TRUE(mentions(FolderLock::holder(folder_.path()), {"run"}));
  }
  pass(120);
  EXPECT_EQ(FolderLock::holder(folder_.path()), "");
  expect_taken_over("no sign of life for");
}

TEST_F(FolderLockTest, AHoldersNameContainsNoControlCharacters) {
  std::string text = text_with("space", "another boot");
  text.replace(text.find("host = "), 7, "host = \x1b[2J");
  put(folder_ / "run.lock.1", text);
  EXPECT_EQ(FolderLock::silent_holder(folder_.path())->holder.find('\x1b'), std::string::npos);
  EXPECT_EQ(FolderLock::holder(folder_.path()).find('\x1b'), std::string::npos);
  pass(FolderLock::kSilence + 60);
  const FolderLock lock(folder_.path(), "--run");
  EXPECT_NE(lock.note().find("?[2J"), std::string::npos) << lock.note();
}

TEST_F(FolderLockTest, WithoutABootIdOnlyASilentRunIsTakenOver) {
  const std::filesystem::path boot = "/proc/sys/kernel/random/boot_id";
  put(folder_ / "empty", "");
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount((folder_ / "empty").c_str(), boot.c_str(), nullptr, MS_BIND, nullptr) != 0)
    GTEST_SKIP() << "only root can hide the boot id";
  struct Shown {
    const std::filesystem::path& path;
    ~Shown() { ::umount(path.c_str()); }
  } const shown{boot};
  std::filesystem::remove(folder_ / "empty");
  put(folder_ / "run.lock.1",
      text_with("pid", "999999999"));  // as another host sees a living process
  const std::string refused = refusal();
  EXPECT_TRUE(mentions(refused, {"is in use by run"}));
  if (refused.empty()) return;
  pass(FolderLock::kSilence + 60);
  expect_taken_over("no sign of life for");
}

TEST_F(FolderLockTest, ARequeuedJobTakesOverFromItself) {
  put(folder_ / "run.lock.1", text_with("space", "another boot"));
  std::string text = contents(folder_ / "run.lock.1");
  text.replace(text.find("job = "), 6, "job = 77 east");
  put(folder_ / "run.lock.1", text);
  ::setenv("SLURM_JOB_ID", "77", 1);
  ::setenv("SLURM_CLUSTER_NAME", "east", 1);
  EXPECT_TRUE(mentions(refusal(), {", job 77, since"})) << "another step of the same job";
  ::setenv("SLURM_RESTART_COUNT", "1", 1);
  ::setenv("SLURM_CLUSTER_NAME", "west", 1);
  EXPECT_TRUE(mentions(refusal(), {"is in use"})) << "a job of another cluster";
  ::setenv("SLURM_CLUSTER_NAME", "east", 1);
  expect_taken_over("its job was requeued");
}

TEST_F(FolderLockTest, AnIncompleteFileIsRespectedForAWhile) {
  put(folder_ / "run.lock.1", "");
  EXPECT_TRUE(mentions(refusal(), {"in use by a run that is just starting"}));
  EXPECT_TRUE(FolderLock::silent_holder(folder_.path())) << "another start waits for it";
  pass(FolderLock::kSilence + 60);
  const FolderLock lock(folder_.path(), "--run");
  EXPECT_EQ(folder_.names(), Names{"run.lock.2"});
}

TEST_F(FolderLockTest, ALackOfDescriptorsDoesNotLoseTheFolder) {
  std::string none, one;
  {
    const FolderLock lock(folder_.path(), "--run");
    std::vector<int> all;
    for (int file; (file = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) all.push_back(file);
    none = error_of([&] { lock.require_held(); });
    ::close(all.back());  // for the folder, and none for the claim in it
    one = error_of([&] { lock.require_held(); });
    all.pop_back();
    for (const int file : all) ::close(file);
    lock.require_held();
  }
  EXPECT_EQ(none, fmt::format("cannot read the folder {}: Too many open files; raise the limit on "
                              "open files (ulimit -n)",
                              folder_.path().string()));
  EXPECT_EQ(one, fmt::format("cannot read {}: Too many open files; raise the limit on open files "
                             "(ulimit -n)",
                             (folder_ / "run.lock.1").string()));
}

TEST_F(FolderLockTest, TheHolderTouchesItsClaim) {
  using Clock = std::filesystem::file_time_type::clock;
  const FolderLock lock(folder_.path(), "--run", std::chrono::milliseconds(10));
  const auto silence = [&] {
    return Clock::now() - std::filesystem::last_write_time(folder_ / "run.lock.1");
  };
  for (int sign = 0; sign < 2; ++sign) {
    touched_ago("run.lock.1", FolderLock::kSilence + 60);
    const auto end = Clock::now() + std::chrono::seconds(60);
    while (silence() > std::chrono::seconds(FolderLock::kSilence) && Clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_LT(silence(), std::chrono::seconds(FolderLock::kSilence));
  }
}

TEST_F(FolderLockTest, ReleasesOnlyItsOwnClaim) {
  {
    const FolderLock lock(folder_.path(), "--run");
    put(folder_ / "run.lock.1", "host = elsewhere\npid = 1\nspace = another\ntoken = 1\n");
  }
  EXPECT_EQ(folder_.names(), Names{"run.lock.1"});
}

TEST_F(FolderLockTest, OnlyOneOfManyWinsAtTheSameInstant) {
  const std::string stale = text_with("start", "1");
  constexpr int kMany = 16;
  for (int round = 0; round < 4; ++round) {
    if (round % 2 == 1) put(folder_ / "run.lock.1", stale);
    std::array<int, 2> go{}, end{};
    ASSERT_EQ(::pipe(go.data()) | ::pipe(end.data()), 0);
    std::vector<pid_t> children;
    for (int i = 0; i < kMany; ++i) {
      children.push_back(::fork());
      if (children.back() != 0) continue;
      ::close(go[1]);
      ::close(end[1]);
      char byte;
      if (::read(go[0], &byte, 1) != 0) ::_exit(3);  // waits until all run
      try {
        const FolderLock lock(folder_.path(), "--run");
        pollfd all_have_tried{end[0], POLLIN, 0};
        ::poll(&all_have_tried, 1, 20000);
      } catch (const Error&) {
        ::_exit(1);
      }
      ::_exit(0);
    }
    ::close(go[0]);
    ::close(end[0]);
    ::close(go[1]);
    int refused = 0, won = 0;
    for (; refused < kMany - 1; ++refused) {  // the winner waits
      int status = 0;
      ::waitpid(-1, &status, 0);
      if (!WIFEXITED(status) || WEXITSTATUS(status) != 1) break;
    }
    EXPECT_EQ(refused, kMany - 1) << "round " << round;
    ::close(end[1]);
    for (int status = 0; ::waitpid(-1, &status, 0) > 0;)
      won += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    EXPECT_EQ(won, 1) << "round " << round;
    EXPECT_EQ(folder_.names(), Names{});
  }
}

TEST_F(FolderLockTest, APipeOrAFolderInPlaceOfAClaimBlocksNothing) {
  ASSERT_EQ(::mkfifo((folder_ / "run.lock.1").c_str(), 0666), 0);
  for (const bool pipe : {true, false}) {
    expect_error({"is in use"}, [&] { FolderLock(folder_.path(), "--run"); });
    EXPECT_TRUE(FolderLock::silent_holder(folder_.path()));
    if (!pipe) break;
    std::filesystem::remove(folder_ / "run.lock.1");
    std::filesystem::create_directory(folder_ / "run.lock.1");
  }
}

}  // namespace
}  // namespace lockstep
