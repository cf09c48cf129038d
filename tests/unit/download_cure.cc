// The end of an error if --data holds other files: nothing writes into the folder of a user.
#include "src/data/sets/download_cure.h"

#include <gtest/gtest.h>

#include <array>

#include "src/data/dataset.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

class DownloadCure : public testing::Test {
 protected:
  std::string cure(const fs::path& folder) const {
    static constexpr std::array<std::string_view, 2> kFiles{"whole", "packed"};
    return download_cure("cifar10", folder, kFiles);
  }
  TemporaryDirectory folder_;
};

TEST_F(DownloadCure, NamesAFolderThatHoldsNothingElse) {
  const std::string command = "scripts/get_data.sh cifar10 " + folder_.path().string();
  EXPECT_TRUE(mentions(cure(folder_.path()), {command})) << "empty";
  EXPECT_TRUE(mentions(cure(folder_ / "none"), {command + "/none"})) << "not there yet";
  put(folder_ / "packed.part", "");
  put(folder_ / ".hidden", "");
  fs::create_directory(folder_ / "whole");
  EXPECT_TRUE(mentions(cure(folder_.path()), {command})) << "an earlier download";
}

TEST_F(DownloadCure, NamesNoFolderThatHoldsOtherFiles) {
  put(folder_ / "cat.png", "");
  EXPECT_EQ(cure(folder_.path()).find(folder_.path().string()), std::string::npos);
  EXPECT_TRUE(mentions(cure(folder_.path()), {"scripts/get_data.sh cifar10 NEW_FOLDER"}));
  EXPECT_TRUE(mentions(cure(folder_ / "cat.png"), {"NEW_FOLDER"})) << "no folder";
}

TEST_F(DownloadCure, SuggestsTheDataSetsOfOwnImages) {
  put(folder_ / "train.h5", "");
  EXPECT_TRUE(mentions(cure(folder_.path()), {"--dataset hdf5"}));
  fs::create_directories(folder_ / "train/cat");
  EXPECT_TRUE(mentions(cure(folder_.path()), {"--dataset folder"}));
  EXPECT_EQ(cure(folder_.path()).find("get_data.sh"), std::string::npos);
}

TEST_F(DownloadCure, StandsInTheErrorsOfDownloadedDataSets) {
  fs::create_directories(folder_ / "train/cat");
  fs::create_directories(folder_ / "test/cat");
  for (const DatasetEntry& entry : datasets()) {
    if (entry.files.empty() || entry.own) continue;
    const std::string text = error_of([&] { entry.open({folder_.path(), 1}); });
    EXPECT_TRUE(mentions(text, {"--dataset folder"}));
    EXPECT_EQ(text.find("get_data.sh"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace lockstep
