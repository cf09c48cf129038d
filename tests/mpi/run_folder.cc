// Which folder an unnamed run gets, and which folders two runs cannot both have.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "apps/record/run_files.h"
#include "apps/record/run_place.h"
#include "src/files/file.h"
#include "tests/mpi/world.h"
#include "tests/support/files.h"
#include "tests/support/parsed_options.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// Works in a temporary folder. Rank 0 looks at the files.
class RunFolderTest : public testing::Test {
 protected:
  RunFolderTest() { fs::current_path(folder_.path()); }
  ~RunFolderTest() override { fs::current_path("/"); }

  static std::unique_ptr<const Options> options(const std::vector<std::string>& words) {
    std::string text;
    return parsed_options(words, {"train_cifar"}, text);
  }
  /// A run that was stopped after a step.
  void put_run(const std::string& name, const Options& o, std::int64_t batch, int shards) const {
    if (!first_) return;
    RunFacts::Json facts = chosen_facts(o, comm_.size()).values();
    facts["global_batch"] = batch;
    facts["shards"] = shards;
    fs::create_directories("runs/" + name + "/checkpoints");
    put("runs/" + name + "/" + kSummaryFile, facts.dump());
  }
  static void claim(RunPlace& place) {
    place.claim([] {});
  }

  const TemporaryDirectory folder_;
  const Comm comm_ = world().comm();
  const bool first_ = comm_.rank() == 0;
};

TEST_F(RunFolderTest, OfTwoStartsOneResumesAndOneBeginsTheNextNumber) {
  const auto one = options({});
  put_run("train_cifar-tutorial-1", *one, 128, comm_.size());
  {
    RunPlace resumed(comm_, *one), begun(comm_, *one);
    EXPECT_EQ(resumed.folder(), "runs/train_cifar-tutorial-1");
    EXPECT_EQ(begun.folder(), "runs/train_cifar-tutorial-2");
    if (first_) EXPECT_EQ(begun.notes().size(), 1u);
    EXPECT_NO_THROW(claim(resumed)) << "it has its claim already";
  }
  const RunPlace again(comm_, *one);
  EXPECT_EQ(again.folder(), "runs/train_cifar-tutorial-1") << "the claim is given back";
}

TEST_F(RunFolderTest, OtherRanksThatCannotResumeBeginAnotherRun) {
  const auto batch = options({"--batch", "4"});
  put_run("train_cifar-tutorial-1", *batch, 4 * (comm_.size() + 1), comm_.size());
  const RunPlace other_batch(comm_, *batch);
  EXPECT_EQ(other_batch.folder(), "runs/train_cifar-tutorial-2");
  const auto open = options({});
  put_run("train_cifar-tutorial-7", *open, 2, 2 * comm_.size());
  const RunPlace same(comm_, *open);
  EXPECT_EQ(same.folder(), "runs/train_cifar-tutorial-7") << "it takes its batch and shards";
  const auto shards = options({"--lr", "1"});
  put_run("train_cifar-tutorial-8", *shards, 128, std::max(comm_.size() - 1, 1));
  const RunPlace other_shards(comm_, *shards);
  EXPECT_EQ(other_shards.folder(),
            comm_.size() == 1 ? "runs/train_cifar-tutorial-8" : "runs/train_cifar-tutorial-9");
}

TEST_F(RunFolderTest, ANamedRunHasItsOptions) {
  const auto before = options({"--run", "one"});
  put_run("one", *before, 128, comm_.size());
  const auto error_with = [&](const char* option, const char* value) {
    const auto now = options({"--run", "one", option, value});
    return error_of([&] { RunPlace(comm_, *now); });
  };
  EXPECT_TRUE(mentions(error_with("--lr", "3"), {"runs/one", "--lr is 3", "--new"}));
  EXPECT_TRUE(mentions(error_with("--model", "resnet20"), {"--model is resnet20"}));
  EXPECT_TRUE(mentions(error_with("--batch", "1000"), {"global batch", "128"}));
  EXPECT_NO_THROW(RunPlace(comm_, *options({"--run", "one", "--keep", "7"})));
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
  RunPlace place(comm_, *run);
  EXPECT_EQ(place.folder(), "runs/one");
  claim(place);
  if (first_) {
    int files = 0;
    for (const auto& entry : fs::recursive_directory_iterator("runs/one"))
      if (entry.path().filename().string().find(".tmp-") != std::string::npos) ++files;
    EXPECT_EQ(files, 1) << "that of another host, which may live";
  }
  EXPECT_TRUE(mentions(error_of([&] { RunPlace(comm_, *other); }), {"mine.txt"}));
}

TEST_F(RunFolderTest, HasOneHolderAndLeavesNothingBehind) {
  const auto run = options({"--run", "x/y"});
  {
    RunPlace held(comm_, *run), second(comm_, *run);
    claim(held);
    EXPECT_TRUE(mentions(error_of([&] { claim(second); }), {"x/y", "in use"}));
  }
  comm_.barrier();
  EXPECT_FALSE(fs::exists("x"));
}

}  // namespace
}  // namespace lockstep
