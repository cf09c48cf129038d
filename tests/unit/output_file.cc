// Output files are replaced completely or not at all, and every error names the file and the
// reason.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>

#include "src/base/machine.h"
#include "src/files/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

using Names = std::vector<std::string>;

class OutputFileTest : public testing::Test {
 protected:
  const TemporaryDirectory directory_;
};

TEST_F(OutputFileTest, ModesAppendAndCreate) {
  const std::filesystem::path path = directory_ / "a";
  OutputFile(path, OutputFile::Mode::create).write("one");
  OutputFile(path, OutputFile::Mode::append).write("two");
  EXPECT_EQ(contents(path), "onetwo");
  expect_error({path.string(), "File exists"}, [&] { OutputFile(path, OutputFile::Mode::create); });
}

TEST_F(OutputFileTest, AFullDeviceIsAnErrorWithItsFix) {
  OutputFile file("/dev/full", OutputFile::Mode::append);
  expect_error({"/dev/full", "No space left on device"}, [&] { file.write("x"); });
}

TEST_F(OutputFileTest, ReplaceLeavesNoOtherFile) {
  replace_file(directory_ / "a", "former");
  replace_file(directory_ / "a", "latter");
  EXPECT_EQ(contents(directory_ / "a"), "latter");
  EXPECT_EQ(directory_.names(), Names{"a"});
  {
    const FileSizeLimit limit(3);
    expect_error({"File too large"}, [&] { replace_file(directory_ / "a", "too large"); });
  }
  EXPECT_EQ(contents(directory_ / "a"), "latter");
  EXPECT_EQ(directory_.names(), Names{"a"});
}

/// The number of a process that has ended.
pid_t dead_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

TEST_F(OutputFileTest, OnlyTemporariesOfDeadProcessesAreRemoved) {
  // The process space of this test, and random digits.
  const std::string random =
      temporary_name("x").string().substr(temporary_name("x").string().rfind('-'));
  const std::string here = "step-1.h5.tmp-" + host_name() + "-",
                    there = "step-1.h5.tmp-other-host-";
  const std::string dead = std::to_string(dead_process()), alive = std::to_string(::getppid());
  const Names kept = {"other.tmp-" + host_name() + "-" + dead,
                      "other.tmp-" + host_name() + "-" + dead + random,
                      "step-1.h5",
                      "step-1.h5.tmp-",
                      here + "x",
                      here + alive,
                      here + alive + random,
                      here + dead + "-0123456789abcdex",
                      here + dead + "-0123456789abcdef",  // of another process space
                      here + std::to_string(::getpid()) + "-0123456789abcdef",
                      here + dead,  // it may be the user's
                      there + "1",
                      there + "2",
                      there + "2" + random,
                      there + "3" + random};
  for (const std::string& name : kept) put(directory_ / name, "");
  for (const std::string& writer : {dead + random, std::to_string(::getpid()) + random})
    put(directory_ / (here + writer), "");
  put(directory_ / (there + "1" + random), "");
  for (const std::string& writer : {std::string("1"), "1" + random}) {
    std::filesystem::last_write_time(
        directory_ / (there + writer),
        std::filesystem::file_time_type::clock::now() - std::chrono::hours(25));
  }
  // The clock may have been set an hour ahead since.
  std::filesystem::last_write_time(
      directory_ / (there + "3" + random),
      std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
  remove_stale_temporaries(directory_.path(), ".h5");
  Names expected = kept;
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(directory_.names(), expected);
  remove_stale_temporaries(directory_.path(), ".tar");
  EXPECT_EQ(directory_.names(), expected) << "no file has this ending";
  std::erase(expected, "other.tmp-" + host_name() + "-" + dead + random);
  remove_stale_temporaries(directory_.path());
  EXPECT_EQ(directory_.names(), expected);
  remove_stale_temporaries(directory_ / "none");  // no such directory
}

TEST_F(OutputFileTest, ATemporaryFollowsNoLink) {
  EXPECT_NE(temporary_name(directory_ / "a"), temporary_name(directory_ / "a"));
  std::filesystem::create_symlink(directory_ / "elsewhere", directory_ / "link");
  expect_error({"File exists"}, [&] { OutputFile(directory_ / "link", OutputFile::Mode::create); });
  EXPECT_EQ(directory_.names(), Names{"link"});
}

TEST_F(OutputFileTest, AWritableDirectoryIsCreatedAndStaysEmpty) {
  const std::vector made = {directory_ / "a/b/c", directory_ / "a/b", directory_ / "a"};
  EXPECT_EQ(require_writable_directory(directory_ / "a/b/c", "log directory"), made);
  EXPECT_TRUE(std::filesystem::is_empty(directory_ / "a/b/c"));
  EXPECT_TRUE(require_writable_directory(directory_ / "a/b/c", "log directory").empty());
}

TEST_F(OutputFileTest, AnUnusableDirectoryIsAnError) {
  put(directory_ / "file", "");
  expect_error({(directory_ / "file/logs").string(), "Not a directory"},
               [&] { require_writable_directory(directory_ / "file/logs", "log directory"); });
  // Even root cannot create a file there.
  expect_error({"/proc/self"}, [&] { require_writable_directory("/proc/self", "log directory"); });
}

TEST_F(OutputFileTest, RequireReplaceablePredictsFailures) {
  put(directory_ / "file", "kept");
  EXPECT_NO_THROW(require_replaceable(directory_ / "file"));
  EXPECT_NO_THROW(require_replaceable(directory_ / "none"));
  EXPECT_EQ(contents(directory_ / "file"), "kept");
  EXPECT_EQ(directory_.names(), Names{"file"});
  expect_error({"No such file"}, [&] { require_replaceable(directory_ / "no/file"); });
  std::filesystem::create_symlink("nowhere", directory_ / "link");
  expect_error({(directory_ / "link").string()}, [&] { require_replaceable(directory_ / "link"); });
  expect_error({directory_.path().string()}, [&] { require_replaceable(directory_.path()); });
}

TEST_F(OutputFileTest, CreateOfTwoWritersOneSucceeds) {
  for (int round = 0; round < 20; ++round) {
    const std::filesystem::path file = directory_ / "x.onnx";
    std::vector<std::string> errors(4);
    std::vector<std::thread> writers;
    for (std::size_t i = 0; i < errors.size(); ++i) {
      writers.emplace_back([&, i] {
        try {
          create_file(file, std::string(100'000, "abcd"[i]));
        } catch (const Error& error) {
          errors[i] = error.what();
        }
      });
    }
    for (std::thread& writer : writers) writer.join();
    int succeeded = 0;
    for (std::size_t i = 0; i < errors.size(); ++i) {
      if (!errors[i].empty()) {
        EXPECT_TRUE(mentions(errors[i], {"x.onnx", "exists"})) << errors[i];
        continue;
      }
      ++succeeded;
      EXPECT_EQ(contents(file), std::string(100'000, "abcd"[i]));
    }
    EXPECT_EQ(succeeded, 1);
    EXPECT_EQ(directory_.names(), Names{"x.onnx"});
    std::filesystem::remove(file);
  }
}

TEST_F(OutputFileTest, CreateReplacesNoFileAndNoLink) {
  put(directory_ / "file", "kept");
  std::filesystem::create_symlink("nowhere", directory_ / "link");
  for (const char* name : {"file", "link"})
    expect_error({name, "exists"}, [&] { create_file(directory_ / name, "x"); });
  EXPECT_EQ(contents(directory_ / "file"), "kept");
  EXPECT_EQ(directory_.names(), (Names{"file", "link"}));
}

}  // namespace
}  // namespace lockstep
