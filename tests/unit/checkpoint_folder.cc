// CheckpointFolder: while a run saves and removes checkpoints; no file is read twice.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/record/checkpoint_use.h"
#include "apps/record/progress.h"
#include "apps/record/run_facts.h"
#include "tests/support/files.h"
#include "tests/support/layouts.h"

namespace lockstep {
namespace {

Layout one_parameter() { return lay_out({{"dense/weights", {300, 1000}}}); }

std::filesystem::path save(const std::filesystem::path& directory, std::int64_t step, int keep,
                           std::map<std::string, std::string> texts = {}) {
  const Layout layout = one_parameter();
  const std::vector<float> arena(layout.count, static_cast<float>(step));
  const auto file = save_checkpoint(directory, layout, {{"parameters", arena.data()}},
                                    {{step, step * 128, 0, 1}, std::move(texts)});
  CheckpointPruner(directory, keep).prune(file);
  return file;
}

/// Bytes that this process has read from files so far.
std::int64_t bytes_read() {
  std::ifstream io("/proc/self/io");
  std::string name;
  std::int64_t bytes = 0;
  io >> name >> bytes;
  EXPECT_EQ(name, "rchar:");
  return bytes;
}

std::int64_t step_of(const std::unique_ptr<Checkpoint>& checkpoint) {
  return checkpoint ? checkpoint->metadata().position.step : -1;
}

TEST(CheckpointFolder, ReadsNoFileTwice) {
  const TemporaryDirectory directory;
  std::vector<std::string> warnings;
  CheckpointFolder folder(directory.path(),
                          [&](const std::string& text) { warnings.push_back(text); });
  EXPECT_EQ(step_of(folder.next()), -1);
  const std::filesystem::path first = save(directory.path(), 1, 0);
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(first));
  put(directory / "step-0000000007.h5", contents(first).substr(0, 1 << 20));
  EXPECT_EQ(step_of(folder.next()), 1);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(mentions(warnings[0], {"step-0000000007.h5", "damaged"}));
  const std::int64_t before = bytes_read();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(step_of(folder.next()), -1);
  EXPECT_LT(bytes_read() - before, size / 2);
  EXPECT_EQ(warnings.size(), 1u);
  save(directory.path(), 2, 0);
  EXPECT_EQ(step_of(folder.next()), 2);
  save(directory.path(), 7, 0);
  EXPECT_EQ(step_of(folder.next()), 7) << "no longer damaged";
  EXPECT_EQ(step_of(folder.next()), -1);
}

TEST(CheckpointFolder, SkipsACheckpointThatIsSavedAgainAfterItsEvaluation) {
  const TemporaryDirectory directory;
  CheckpointFolder folder(directory.path(), [](const std::string& text) { FAIL() << text; });
  const auto save_of = [&](std::int64_t step, const std::string& id, const std::string& progress) {
    save(directory.path(), step, 0,
         {{kFacts, fmt::format(R"({{"id": "{}"}})", id)}, {kProgress, progress}});
  };
  save_of(1, "4a11", "due");
  EXPECT_EQ(step_of(folder.next()), 1);
  save_of(1, "4a11", "done");
  EXPECT_EQ(step_of(folder.next()), -1);
  EXPECT_EQ(step_of(folder.next()), -1);
  save_of(2, "4a11", "due");
  EXPECT_EQ(step_of(folder.next()), 2);
  save_of(2, "77", "due");
  EXPECT_EQ(step_of(folder.next()), 2) << "of another run";
}

TEST(CheckpointFolder, FindsTheCheckpointOfARunThatKeepsOne) {
  const TemporaryDirectory directory;
  save(directory.path(), 1, 1);
  const pid_t run = ::fork();
  if (run == 0) {
    for (std::int64_t step = 2;; ++step) save(directory.path(), step, 1);
  }
  const Layout layout = one_parameter();
  std::vector<float> arena(layout.count);
  std::int64_t last = 0;
  int found = 0;
  while (last < 100) {
    CheckpointFolder folder(directory.path(), [](const std::string& text) { FAIL() << text; });
    const auto checkpoint = folder.next();
    ASSERT_NE(checkpoint, nullptr) << "after step " << last;
    // The run removes it meanwhile.
    const std::int64_t step = step_of(checkpoint);
    while (list_checkpoints(directory.path()) == std::vector{checkpoint->file()}) ::usleep(100);
    checkpoint->load(layout, {{"parameters", arena.data()}});
    EXPECT_EQ(arena[layout.parameters[0].range.begin], static_cast<float>(step));
    EXPECT_EQ(arena.back(), static_cast<float>(step));
    EXPECT_GE(step, last);
    last = step;
    ++found;
  }
  ::kill(run, SIGKILL);
  ::waitpid(run, nullptr, 0);
  EXPECT_GT(found, 1);
}

}  // namespace
}  // namespace lockstep
