// Which folder an unnamed run gets, and which folders two runs cannot both have.
#include "apps/record/run_place.h"

#include <gtest/gtest.h>

#include <memory>

#include "apps/run/training_program.h"
#include "apps/record/run_place.h"
#include "apps/record/run_files.h"
#include "src/files/file.h"
#include "tests/mpi/world.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// Works in a temporary folder. Rank 0 looks at the files.
class RunFolderTest : public testing::Test {
 protected:
  RunFolderTest() { fs::current_path(folder_.path()); }
  ~RunFolderTest() override { fs::current_path("/"); }

  static std::unique_ptr<Options> options(std::vector<std::string> words) {
    words.insert(words.begin(), "train_cifar");
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    std::string text;
    return parse_options(static_cast<int>(argv.size()), argv.data(), {"train_cifar"}, text);
  }
  /// A run that was stopped after a step.
  static void put_run(const std::string& name, const Options& o, std::int64_t batch, int shards) {
    fs::create_directories("runs/" + name + "/checkpoints");
    put("runs/" + name + "/" + kConfigFile, o.text);
    put("runs/" + name + "/" + kSummaryFile,
        fmt::format(R"({{"global_batch": {}, "shards": {}}})", batch, shards));
  }

  const TemporaryDirectory folder_;
  const Comm comm_ = world().comm();
  const bool first_ = comm_.rank() == 0;
};

TEST_F(RunFolderTest, OfTwoStartsOneResumesAndOneBeginsTheNextNumber) {
  const auto one = options({}), other = options({}), third = options({});
  put_run("train_cifar-tutorial-1", *one, 128, comm_.size());
  {
    const RunFolder resumed(comm_, *one), begun(comm_, *other);
    EXPECT_EQ(one->run.folder, "runs/train_cifar-tutorial-1");
    EXPECT_EQ(other->run.folder, "runs/train_cifar-tutorial-2");
    if (first_) {
      EXPECT_EQ(other->notes.size(), 1u);
      EXPECT_NO_THROW(RunFolders{*one}) << "it has its claim already";
    }
  }
  const RunFolder again(comm_, *third);
  EXPECT_EQ(third->run.folder, one->run.folder) << "the claim is given back";
}

TEST_F(RunFolderTest, OtherRanksThatCannotResumeBeginAnotherRun) {
  const auto batch = options({"--batch", "4"});
  put_run("train_cifar-tutorial-1", *batch, 4 * (comm_.size() + 1), 0);
  const RunFolder other_batch(comm_, *batch);
  EXPECT_EQ(batch->run.folder, "runs/train_cifar-tutorial-2");
  const auto open = options({});
  put_run("train_cifar-tutorial-7", *open, 2, 2 * comm_.size());
  const RunFolder same(comm_, *open);
  EXPECT_EQ(open->run.folder, "runs/train_cifar-tutorial-7") << "it takes its batch and shards";
  const auto shards = options({"--lr", "1"});
  put_run("train_cifar-tutorial-8", *shards, 128, comm_.size() + 1);
  const RunFolder other_shards(comm_, *shards);
  EXPECT_EQ(shards->run.folder,
            comm_.size() == 1 ? "runs/train_cifar-tutorial-8" : "runs/train_cifar-tutorial-9");
}

TEST_F(RunFolderTest, AStartThatWasKilledAtOnceLeavesItsNameFree) {
  const auto run = options({"--run", "one"}), other = options({"--run", "two"});
  if (first_) {
    fs::create_directories("runs/one/checkpoints");
    put("runs/one/probe.tmp-elsewhere-7-0123456789abcdef", "");
    put(temporary_name("runs/one/config.toml"), "");
    put(temporary_name("runs/one/checkpoints/step-0000000001.h5"), "");
    fs::create_directories("runs/two");
    put("runs/two/mine.txt", "");
  }
  const RunFolder folder(comm_, *run);
  EXPECT_EQ(run->run.folder, "runs/one");
  if (first_) {
    const RunFolders held(*run);
    int files = 0;
    for (const auto& entry : fs::recursive_directory_iterator("runs/one"))
      if (entry.path().filename().string().find(".tmp-") != std::string::npos) ++files;
    EXPECT_EQ(files, 1) << "that of another host, which may live";
  }
  EXPECT_TRUE(mentions(error_of([&] { RunFolder(comm_, *other); }), {"mine.txt"}));
}

TEST_F(RunFolderTest, ItsCheckpointsAreAnothersNeither) {
  if (!first_) return;
  const auto run = options({}), other = options({"--checkpoint-dir", "x/checkpoints"});
  run->run.folder = run->reports.log_dir = "x";
  run->checkpoints.dir = "x/checkpoints";
  const RunFolders held(*run);
  EXPECT_TRUE(mentions(error_of([&] { RunFolders{*other}; }), {"--checkpoint-dir x/checkpoints"}));
}

}  // namespace
}  // namespace lockstep
