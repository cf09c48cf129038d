// System calls on files that fail or kill the process at any place: a file that cannot be read now
// is never called damaged, nothing takes its place, and what a kill leaves stops no later start.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/file.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "apps/record/checkpoint_use.h"
#include "net/checkpoint.h"
#include "src/files/file.h"
#include "src/files/folder_lock.h"
#include "src/files/hdf5_bytes.h"
#include "src/files/pytorch_file.h"
#include "src/files/safetensors.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"
#include "tests/support/layouts.h"
#include "tests/support/pytorch_file.h"
#include "tests/support/safetensors.h"

namespace {

/// The fault of call number `left`, from 0, of those in `calls` on a file whose path
/// contains `name`.
struct Fault {
  std::string calls, name;
  int error = 0;  ///< errno; 0: the process is killed
  int left = 0;
  bool met = false;
  bool always = false;  ///< also the calls after it
};
Fault* fault = nullptr;
time_t clock_ahead = 0;  // seconds

/// Whether this call fails. `path`: null: that of `file`.
bool fails(const char* call, const char* path, int file) {
  if (fault == nullptr || fault->calls.find(call) == std::string::npos) return false;
  char buffer[4096] = "";
  if (path == nullptr) {
    const std::string link = "/proc/self/fd/" + std::to_string(file);
    if (::readlink(link.c_str(), buffer, sizeof buffer - 1) < 0) return false;
    path = buffer;
  }
  if (std::strstr(path, fault->name.c_str()) == nullptr || fault->left-- > 0) return false;
  if (fault->met && !fault->always) return false;
  fault->met = true;
  if (fault->error == 0) ::_exit(9);
  errno = fault->error;
  return true;
}

template <class F>
F* next(const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

// HDF5 and the library call these.
extern "C" {
int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const auto mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return fails("open", path, -1) ? -1 : next<int(const char*, int, ...)>("open")(path, flags, mode);
}
ssize_t pread(int file, void* to, size_t count, off_t at) {
  if (fails("pread", nullptr, file)) return -1;
  return next<ssize_t(int, void*, size_t, off_t)>("pread")(file, to, count, at);
}
ssize_t write(int file, const void* from, size_t count) {
  if (fails("write", nullptr, file)) return -1;
  return next<ssize_t(int, const void*, size_t)>("write")(file, from, count);
}
ssize_t pwrite(int file, const void* from, size_t count, off_t at) {
  if (fails("pwrite", nullptr, file)) return -1;
  return next<ssize_t(int, const void*, size_t, off_t)>("pwrite")(file, from, count, at);
}
int flock(int file, int how) noexcept {
  return fails("flock", nullptr, file) ? -1 : next<int(int, int)>("flock")(file, how);
}
int link(const char* from, const char* to) noexcept {
  return fails("link", to, -1) ? -1 : next<int(const char*, const char*)>("link")(from, to);
}
int gettimeofday(timeval* now, void* zone) noexcept {
  const int result = next<int(timeval*, void*)>("gettimeofday")(now, zone);
  now->tv_sec += clock_ahead;
  return result;
}
time_t time(time_t* to) noexcept {
  timeval now{};
  ::gettimeofday(&now, nullptr);
  if (to != nullptr) *to = now.tv_sec;
  return now.tv_sec;
}
int unlink(const char* path) noexcept {
  return fails("unlink", path, -1) ? -1 : next<int(const char*)>("unlink")(path);
}
}

namespace lockstep {
namespace {

/// Sets the fault while it lives.
class Failing {
 public:
  Failing(std::string calls, std::string name, int error, int left = 0, bool always = false)
      : fault_{std::move(calls), std::move(name), error, left, false, always} {
    fault = &fault_;
  }
  ~Failing() { fault = nullptr; }
  bool met() const { return fault_.met; }

 private:
  Fault fault_;
};

std::filesystem::path save(const std::filesystem::path& directory, std::int64_t step) {
  const Layout layout = lay_out({{"a/b", {40, 25}}});
  const std::vector<float> arena(layout.count, static_cast<float>(step));
  return save_checkpoint(directory, layout, {{"parameters", arena.data()}},
                         {{step, step, 0, 1}, {}});
}

/// `read` must throw UnreadableFile that has these words, and never call the file damaged. Returns
/// its exit code.
int expect_unreadable(const std::function<void()>& read, const std::vector<std::string_view>& words,
                      const std::string& when) {
  try {
    read();
    ADD_FAILURE() << "no error: " << when;
  } catch (const UnreadableFile& error) {
    EXPECT_TRUE(mentions(error.what(), words)) << when;
    EXPECT_EQ(std::string(error.what()).find("damaged"), std::string::npos) << error.what();
    return error.exit_code();
  } catch (const Error& error) {
    ADD_FAILURE() << "another error: " << when << ": " << error.what();
  }
  return 0;
}

/// Fails each call in turn. Returns how many there are.
int for_each_call(const char* calls, const std::string& name, int error,
                  const std::function<void(const std::string&)>& check) {
  for (int call = 0;; ++call) {
    const Failing failing(calls, name, error, call);
    check(fmt::format("{} {} of {}", calls, call, std::strerror(error)));
    if (!failing.met() || testing::Test::HasFailure()) return call;
  }
}

/// Fails each open() and pread() of `file` in turn, with each error. `read` must throw as
/// expect_unreadable() expects.
void expect_unreadable_at_each_call(const std::filesystem::path& file,
                                    const std::vector<int>& errors,
                                    const std::function<void()>& read) {
  const std::string name = file.filename();
  for (const int error : errors) {
    for (const char* call : {"open", "pread"}) {
      const int calls = for_each_call(call, name, error, [&](const std::string& when) {
        try {
          read();
          EXPECT_FALSE(fault->met) << "no error: " << when;
        } catch (const std::exception&) {
          expect_unreadable([] { throw; }, {name, std::strerror(error)}, when);
        }
      });
      EXPECT_GE(calls, 1) << file << " " << call;
    }
  }
}

TEST(FileFaults, AReadErrorIsNoDamageAndNoOlderFileTakesItsPlace) {
  const TemporaryDirectory directory;
  save(directory.path(), 1);
  const std::filesystem::path newest = save(directory.path(), 2);
  const std::string before = contents(newest);
  const std::function<void()> readers[] = {
      [&] { Checkpoint(newest).verify(); }, [&] { newest_good(directory.path()); },
      [&] {
        CheckpointFolder(directory.path(), [](const std::string& text) { FAIL() << text; }).next();
      }};
  for (const auto& read : readers)
    expect_unreadable_at_each_call(newest, {EIO, EMFILE, ENFILE, ESTALE, EACCES}, read);
  EXPECT_EQ(newest_good(directory.path()).file, newest);
  EXPECT_EQ(contents(newest), before);
}

TEST(FileFaults, AFileThatAnotherProgramWritesIsNotDamaged) {
  const TemporaryDirectory directory;
  save(directory.path(), 1);
  const std::filesystem::path newest = save(directory.path(), 2);
  const std::string half = contents(newest).substr(0, 3000);
  put(newest, half);
  const std::function<void()> readers[] = {
      [&] { Checkpoint{newest}; }, [&] { newest_good(directory.path()); },
      [&] {
        CheckpointFolder(directory.path(), [](const std::string& text) { FAIL() << text; }).next();
      }};
  for (const bool locks : {false, true}) {
    const int held = ::open(newest.c_str(), locks ? O_RDONLY : O_WRONLY);
    if (locks) {
      ASSERT_EQ(::flock(held, LOCK_EX), 0);
    }
    for (const auto& read : readers) {
      EXPECT_EQ(expect_unreadable(read, {newest.string(), "now", "open", "same command"}, "held"),
                kExitInUse);
    }
    EXPECT_EQ(CheckpointPruner(directory.path(), 2).prune(save(directory.path(), 3)).size(), 1u);
    std::filesystem::remove(directory / "step-0000000003.h5");
    ::close(held);
  }
  for (std::size_t reader = 1; reader < 3; ++reader) {  // a writer on another host
    const std::jthread writer([&] {
      ::usleep(500'000);
      std::filesystem::last_write_time(
          newest, std::filesystem::file_time_type(std::chrono::seconds(reader)));
    });
    expect_unreadable(readers[reader], {newest.string(), "now", "open"}, "it changes");
  }
  EXPECT_EQ(contents(newest), half);
  EXPECT_TRUE(mentions(newest_good(directory.path()).warnings.at(0), {newest.string(), "damaged"}));
}

TEST(FileFaults, AFileThatWasNotClosedIsNotDamaged) {
  const TemporaryDirectory directory;
  save(directory.path(), 1);
  const std::filesystem::path newest = save(directory.path(), 2);
  const pid_t crashes = ::fork();
  if (crashes == 0) {
    H5Fopen(newest.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(crashes, nullptr, 0), crashes);
  EXPECT_EQ(expect_unreadable([&] { newest_good(directory.path()); },
                              {newest.string(), "now", "not closed", "h5clear -s"}, "crashed"),
            kExitStorage);
  std::string changed = contents(newest);
  changed[11] ^= 2;  // the mark, without its checksum
  put(newest, changed);
  EXPECT_EQ(newest_good(directory.path()).file, directory / "step-0000000001.h5");
}

TEST(FileFaults, AFileThatCannotBeReadIsNeitherCountedNorRemoved) {
  const TemporaryDirectory directory;
  for (std::int64_t step = 1; step <= 4; ++step) save(directory.path(), step);
  CheckpointPruner pruner(directory.path(), 2);
  const std::filesystem::path newest = directory / "step-0000000004.h5";
  {
    const Failing failing("open", "step-0000000003", EMFILE, 0, /*always=*/true);
    const std::vector<std::string> warnings = pruner.prune(newest);
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_TRUE(mentions(warnings[0], {"step-0000000003.h5", std::strerror(EMFILE)}));
  }
  EXPECT_EQ(list_checkpoints(directory.path()).size(), 3u) << "4, 2, and 3, which is not counted";
  EXPECT_TRUE(pruner.prune(newest).empty()) << "it looks again";
  EXPECT_EQ(list_checkpoints(directory.path()).size(), 2u);
}

TEST(FileFaults, ALockThatFailsIsNoDamage) {
  const TemporaryDirectory directory;
  save(directory.path(), 1);
  const std::filesystem::path newest = save(directory.path(), 2);
  constexpr int kNotSupportedByNfs = 524;  // ENOTSUPP of the kernel has no name here
  for (const int error : {ENOLCK, ENOSYS, ENOTSUP, kNotSupportedByNfs, EAGAIN}) {
    ::unsetenv("HDF5_USE_FILE_LOCKING");
    {
      H5close();  // it reads the environment again
      const Failing failing("flock", "step-", error, 0, /*always=*/true);
      EXPECT_NO_THROW(Checkpoint(newest).verify()) << error;
#if H5_VERSION_GE(1, 12, 1) || (H5_VERSION_GE(1, 10, 7) && !H5_VERSION_GE(1, 12, 0))
      EXPECT_FALSE(failing.met()) << "a complete file needs no lock";
#endif
    }
    ::setenv("HDF5_USE_FILE_LOCKING", "TRUE", 1);
    H5close();
    const Failing failing("flock", "step-", error, 0, /*always=*/true);
    if (error == ENOSYS) {  // HDF5 goes on without a lock
      EXPECT_EQ(newest_good(directory.path()).file, newest);
    } else if (error == EAGAIN) {
      expect_unreadable([&] { newest_good(directory.path()); }, {newest.string(), "open"}, "held");
    } else {
      expect_unreadable([&] { newest_good(directory.path()); },
                        {newest.string(), "lock", "HDF5_USE_FILE_LOCKING=FALSE"},
                        std::strerror(error));
    }
    EXPECT_TRUE(failing.met());
    ::unsetenv("HDF5_USE_FILE_LOCKING");
    H5close();
  }
}

TEST(FileFaults, OtherFilesAreNotDamagedEither) {
  const TemporaryDirectory directory;
  const std::filesystem::path safetensors = directory / "a.safetensors",
                              packed = directory / "p.h5", pytorch = directory / "p.pth";
  write_safetensors_text(
      safetensors, R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})", "1234");
  put(pytorch,
      pickled::new_file(
          pickled::dict({pickled::text("a"),
                         pickled::tensor(pickled::storage("FloatStorage", "0", 1), 0, {1}, {1})}),
          {"1234"}));
  {
    Hdf5BytesWriter writer(packed, {{"a", 3, 1}});
    writer.append("a", std::vector<std::uint8_t>{1, 2, 3});
    writer.commit();
  }
  std::vector<std::uint8_t> bytes(3);
  const std::pair<std::filesystem::path, std::function<void()>> readers[] = {
      {pytorch, [&] { read_pytorch(pytorch).read("a"); }},
      {safetensors, [&] { read_safetensors(safetensors).read("a"); }},
      {packed,
       [&] {
         const Hdf5BytesReader reader(packed);
         reader.read(reader.array("a", 1), 0, bytes);
       }},
      {packed, [&] { read_file(packed); }}};
  for (const auto& [file, read] : readers)
    expect_unreadable_at_each_call(file, {EIO, EMFILE, ESTALE}, read);
  EXPECT_EQ(read_file(directory / "none"), std::nullopt);
  EXPECT_EQ(read_file(directory.path()), std::nullopt);
}

TEST(FileFaults, APackThatCannotBeWrittenLeavesNoFile) {
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory / "a.h5";
  for (const int error : {EIO, ENOSPC}) {
    const int calls = for_each_call("pwrite", "a.h5", error, [&](const std::string& when) {
      try {
        Hdf5BytesWriter writer(file, {{"g/a", 3, 1}, {"g/b", 2, 8}});
        writer.append("g/a", std::vector<std::uint8_t>{1, 2, 3});
        writer.append("g/b", std::vector<std::uint8_t>(16));
        writer.commit();
        EXPECT_FALSE(fault->met) << "no error: " << when;
      } catch (const Error& failure) {
        EXPECT_TRUE(mentions(failure.what(), {file.string()})) << when;
        EXPECT_TRUE(directory.names().empty()) << when;
      }
    });
    EXPECT_GE(calls, 4);
    EXPECT_NO_THROW(Hdf5BytesReader{file});
    std::filesystem::remove(file);
  }
}

TEST(FileFaults, TwoPacksOfTheSameBytesAreTheSame) {
  const TemporaryDirectory directory;
  for (const char* name : {"a.h5", "b.h5"}) {
    Hdf5BytesWriter writer(directory / name, {{"train/a", 3, 1}, {"test/b", 0, 8}});
    writer.append("train/a", std::vector<std::uint8_t>{1, 2, 3});
    writer.commit();
    clock_ahead += 3600;  // HDF5 would store the second
  }
  clock_ahead = 0;
  EXPECT_TRUE(contents(directory / "a.h5") == contents(directory / "b.h5"));
}

/// Runs `work` in a process that is killed at each call in turn, and `check` after each.
void for_each_kill(const std::function<void()>& work, const std::function<void(int)>& check) {
  for (int call = 0, ended = 0; ended == 0; ++call) {
    const pid_t child = ::fork();
    if (child == 0) {
      const Failing killed("open write pwrite link unlink", "lockstep-test-", 0, call);
      work();
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    ended = WEXITSTATUS(status) == 0;
    ASSERT_TRUE(ended || WEXITSTATUS(status) == 9);
    ASSERT_NO_FATAL_FAILURE(check(call));
    ASSERT_LT(call, 1000);
  }
}

TEST(FileFaults, AKilledClaimBlocksNoFolder) {
  const TemporaryDirectory directory;
  for_each_kill(
      [&] { FolderLock(directory.path(), "--run").name_run("4a11"); },
      [&](int call) { EXPECT_NO_THROW(FolderLock(directory.path(), "--run")) << "call " << call; });
}

TEST(FileFaults, ClaimsNeedNoLinks) {
  const TemporaryDirectory directory;
  for (const int error : {EPERM, EOPNOTSUPP, EMLINK}) {
    const Failing failing("link", "run.lock", error, 0, /*always=*/true);
    const FolderLock lock(directory.path(), "--run");
    EXPECT_TRUE(failing.met());
    EXPECT_EQ(directory.names(), std::vector<std::string>{"run.lock.1"});
    expect_error({"in use"}, [&] { FolderLock(directory.path(), "--run"); });
  }
}

TEST(FileFaults, TemporariesOfKilledWritersAreRemoved) {
  const TemporaryDirectory directory;
  for_each_kill(
      [&] {
        require_writable_directory(directory.path(), "--run");
        replace_file(directory / "summary.json", "{}");
        replace_file(directory / "report.html", "page");
      },
      [&](int call) {
        remove_stale_temporaries(directory.path());
        for (const std::string& name : directory.names())
          EXPECT_EQ(name.find(".tmp-"), std::string::npos) << "call " << call << ": " << name;
      });
}

}  // namespace
}  // namespace lockstep
