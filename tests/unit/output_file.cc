// Output files are replaced completely or not at all, and every error names the file and the
// reason.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>

#include "src/base/machine.h"
#include "src/files/file.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

using Names = std::vector<std::string>;

TEST(OutputFile, ModesAppendReplaceAndCreate) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "a";
  OutputFile(path, OutputFile::Mode::create).write("one");
  OutputFile(path, OutputFile::Mode::append).write("two");
  EXPECT_EQ(contents(path), "onetwo");
  OutputFile(path, OutputFile::Mode::replace).write("three");
  EXPECT_EQ(contents(path), "three");
  const std::string text = error_of([&] { OutputFile(path, OutputFile::Mode::create); });
  EXPECT_TRUE(mentions(text, {path.string(), "File exists"}));
}

TEST(OutputFile, AFullDeviceIsAnErrorWithItsFix) {
  OutputFile file("/dev/full", OutputFile::Mode::append);
  EXPECT_TRUE(
      mentions(error_of([&] { file.write("x"); }), {"/dev/full", "No space left on device"}));
}

TEST(OutputFile, ReplaceLeavesNoOtherFile) {
  const TemporaryDirectory directory;
  replace_file(directory / "a", "former");
  replace_file(directory / "a", "latter");
  EXPECT_EQ(contents(directory / "a"), "latter");
  EXPECT_EQ(directory.names(), Names{"a"});
  {
    const FileSizeLimit limit(3);
    const std::string text = error_of([&] { replace_file(directory / "a", "too large"); });
    EXPECT_TRUE(mentions(text, {"File too large"}));
  }
  EXPECT_EQ(contents(directory / "a"), "latter");
  EXPECT_EQ(directory.names(), Names{"a"});
}

/// The number of a process that has ended.
pid_t dead_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

TEST(OutputFile, OnlyTemporariesOfDeadProcessesAreRemoved) {
  const TemporaryDirectory directory;
  const std::string here = "step-1.h5.tmp-" + host_name() + "-",
                    there = "step-1.h5.tmp-other-host-";
  const std::string dead = std::to_string(dead_process()), alive = std::to_string(::getppid());
  const std::string random = "-0123456789abcdef";
  const Names kept = {"other.tmp-" + host_name() + "-" + dead,
                      "other.tmp-" + host_name() + "-" + dead + random,
                      "step-1.h5",
                      "step-1.h5.tmp-",
                      here + "x",
                      here + alive,
                      here + alive + random,
                      here + dead + "-0123456789abcdex",
                      there + "2",
                      there + "2" + random};
  for (const std::string& name : kept) put(directory / name, "");
  for (const std::string& writer : {dead, dead + random, std::to_string(::getpid()) + random})
    put(directory / (here + writer), "");
  for (const std::string& writer : {std::string("1"), "1" + random}) {
    put(directory / (there + writer), "");
    std::filesystem::last_write_time(
        directory / (there + writer),
        std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
  }
  remove_stale_temporaries(directory.path(), "step-");
  Names expected = kept;
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(directory.names(), expected);
  remove_stale_temporaries(directory.path(), "", ".tar");
  EXPECT_EQ(directory.names(), expected) << "no file has this ending";
  std::erase(expected, "other.tmp-" + host_name() + "-" + dead + random);
  remove_stale_temporaries(directory.path(), "", "other");
  EXPECT_EQ(directory.names(), expected) << "names without random digits may be the user's";
  remove_stale_temporaries(directory / "none", "step-");  // no such directory
}

TEST(OutputFile, ATemporaryFollowsNoLink) {
  const TemporaryDirectory directory;
  EXPECT_NE(temporary_name(directory / "a"), temporary_name(directory / "a"));
  std::filesystem::create_symlink(directory / "elsewhere", directory / "link");
  const std::string text =
      error_of([&] { OutputFile(directory / "link", OutputFile::Mode::create); });
  EXPECT_TRUE(mentions(text, {"File exists"}));
  EXPECT_EQ(directory.names(), Names{"link"});
}

TEST(OutputFile, AWritableDirectoryIsCreatedAndStaysEmpty) {
  const TemporaryDirectory directory;
  const std::vector made = {directory / "a/b/c", directory / "a/b", directory / "a"};
  EXPECT_EQ(require_writable_directory(directory / "a/b/c", "log directory"), made);
  EXPECT_TRUE(std::filesystem::is_empty(directory / "a/b/c"));
  EXPECT_TRUE(require_writable_directory(directory / "a/b/c", "log directory").empty());
}

TEST(OutputFile, AnUnusableDirectoryIsAnError) {
  const TemporaryDirectory directory;
  put(directory / "file", "");
  const std::string text =
      error_of([&] { require_writable_directory(directory / "file/logs", "log directory"); });
  EXPECT_TRUE(mentions(text, {(directory / "file/logs").string(), "Not a directory"}));
  // Even root cannot create a file there.
  const std::string proc =
      error_of([&] { require_writable_directory("/proc/self", "log directory"); });
  EXPECT_TRUE(mentions(proc, {"/proc/self"}));
}

TEST(OutputFile, RequireReplaceablePredictsFailures) {
  const TemporaryDirectory directory;
  put(directory / "file", "kept");
  EXPECT_NO_THROW(require_replaceable(directory / "file"));
  EXPECT_NO_THROW(require_replaceable(directory / "none"));
  EXPECT_EQ(contents(directory / "file"), "kept");
  EXPECT_EQ(directory.names(), Names{"file"});
  EXPECT_TRUE(
      mentions(error_of([&] { require_replaceable(directory / "no/file"); }), {"No such file"}));
  std::filesystem::create_symlink("nowhere", directory / "link");
  EXPECT_TRUE(mentions(error_of([&] { require_replaceable(directory / "link"); }),
                       {(directory / "link").string()}));
  EXPECT_TRUE(mentions(error_of([&] { require_replaceable(directory.path()); }),
                       {directory.path().string()}));
}

TEST(CreateFile, OfTwoWritersOneSucceeds) {
  const TemporaryDirectory directory;
  for (int round = 0; round < 20; ++round) {
    const std::filesystem::path file = directory / "x.onnx";
    std::vector<std::string> errors(4);
    std::vector<std::thread> writers;
    for (std::size_t i = 0; i < errors.size(); ++i) {
      writers.emplace_back([&, i] {
        errors[i] = error_of([&] { create_file(file, std::string(100'000, "abcd"[i])); });
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
    EXPECT_EQ(directory.names(), Names{"x.onnx"});
    std::filesystem::remove(file);
  }
}

TEST(CreateFile, ReplacesNoFileAndNoLink) {
  const TemporaryDirectory directory;
  put(directory / "file", "kept");
  std::filesystem::create_symlink("nowhere", directory / "link");
  for (const char* name : {"file", "link"})
    EXPECT_TRUE(mentions(error_of([&] { create_file(directory / name, "x"); }), {name, "exists"}));
  EXPECT_EQ(contents(directory / "file"), "kept");
  EXPECT_EQ(directory.names(), (Names{"file", "link"}));
}

TEST(CacheFolder, IsNeverInTheWorkingDirectory) {
  setenv("HOME", "/home/user", 1);
  setenv("XDG_CACHE_HOME", "/elsewhere", 1);
  EXPECT_EQ(cache_folder(), "/elsewhere/lockstep");
  setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(cache_folder(), "/home/user/.cache/lockstep");
  unsetenv("HOME");
  EXPECT_EQ(cache_folder(), "");
}

}  // namespace
}  // namespace lockstep
