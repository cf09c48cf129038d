// Folders that --data can name by mistake: every data set with files of fixed names refuses them
// with the reason and the way on, and nothing writes into the folder of a user.
#include "src/data/sets/data_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <map>

#include "src/base/table.h"
#include "src/data/validation.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

class DataFolder : public testing::Test {
 protected:
  std::string advice(const fs::path& folder) const {
    return look_into("cifar10", "@(whole/|packed?(.part))", folder, folder / "first");
  }
  /// The data sets of the registry whose files have fixed names.
  static void each(const std::function<void(const DatasetEntry&)>& body) {
    int count = 0;
    for (const DatasetEntry& entry : datasets()) {
      if (entry.files.empty() || entry.resizes || entry.texts) continue;
      SCOPED_TRACE(entry.name);
      body(entry);
      ++count;
    }
    EXPECT_EQ(count, 5);
  }
  static std::string refusal(const DatasetEntry& entry, const fs::path& folder) {
    const std::string text = error_of([&] { open_data(entry, {{{folder}}}); });
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    return text;
  }
  TemporaryDirectory folder_;
};

/// While it lives, the process is another user, whom permissions bind.
class OtherUser {
 public:
  OtherUser() : root_(::geteuid() == 0 && ::setresuid(65534, 65534, 0) == 0) {}
  ~OtherUser() {
    if (root_ && ::setresuid(0, 0, 0) != 0) std::abort();
  }

 private:
  bool root_;
};

TEST_F(DataFolder, DownloadsToAFolderThatHoldsNothingElse) {
  const std::string command = "scripts/get_data.sh cifar10 " + folder_.path().string();
  EXPECT_TRUE(mentions(advice(folder_.path()), {command})) << "empty";
  put(folder_ / "packed.part", "");
  put(folder_ / ".hidden", "");
  fs::create_directory(folder_ / "whole");
  EXPECT_TRUE(mentions(advice(folder_.path()), {command})) << "an earlier download";
  put(folder_ / "cat.png", "");
  EXPECT_EQ(advice(folder_.path()).find(folder_.path().string()), std::string::npos);
  EXPECT_TRUE(mentions(advice(folder_.path()), {"scripts/get_data.sh cifar10 NEW_FOLDER"}));
}

TEST_F(DataFolder, NamesWhatCannotBeRead) {
  fs::permissions(folder_.path(), fs::perms::all);
  const fs::path closed = folder_ / "closed";
  fs::create_directory(closed);
  for (const char* name : {"data_batch_1.bin", "train-labels-idx1-ubyte", "reuters.h5", "train.h5"})
    put(closed / name, "");
  for (const auto& file : fs::directory_iterator(closed)) fs::permissions(file, fs::perms::none);
  const auto expect_named = [&](const DatasetEntry& entry) {
    const OtherUser user;
    const std::string text = refusal(entry, closed);
    EXPECT_TRUE(mentions(text, {closed.c_str(), "Permission denied", "permissions"}));
    for (const char* wrong : {"damaged", "get_data.sh", "does not exist"})
      EXPECT_EQ(text.find(wrong), std::string::npos) << text;
  };
  each(expect_named);
  fs::permissions(closed, fs::perms::none);
  each(expect_named);
  fs::permissions(closed, fs::perms::all);
}

/// A file in the folder, and a part of the way on.
const std::map<std::string, std::string> kOthers{
    {"train/cat", "--dataset folder"},
    {"train.h5", "--dataset hdf5"},
    {"data_batch_1.bin", "--dataset cifar10"},
    {"cifar-10-batches-bin/x", "--dataset cifar10"},
    {"train-images-idx3-ubyte", "--dataset mnist"},
    {"train-images.idx3-ubyte.gz", "--dataset mnist"},
    {"emnist-letters-train-images-idx3-ubyte", "--dataset mnist"},
    {"MNIST/raw", "--dataset mnist"},
    {"FashionMNIST/raw", "--dataset mnist"},
    {"fashion-mnist/x", "fashion-mnist"},
    {"reuters.h5", "--dataset reuters"},
    {"reuters.npz", "scripts/convert_reuters.py"},
    {"cifar-10-binary.tar.gz", "tar -xzf"},
    {"gzip.zip", "unzip"},
    {"cifar-10-python.tar.gz", "scripts/get_data.sh cifar10"},
    {"cifar-10-matlab.tar.gz", "scripts/get_data.sh cifar10"},
    {"cifar-10-batches-py/x", "scripts/get_data.sh cifar10"},
    {"cifar-10-batches-py.tar.gz", "scripts/get_data.sh cifar10"},
    {"data_batch_1", "scripts/get_data.sh cifar10"},
    {"data_batch_1.mat", "scripts/get_data.sh cifar10"},
    {"cifar-100-binary.tar.gz", "scripts/convert_images.py"},
    {"cifar-100-python/x", "scripts/convert_images.py"},
    {"train.bin", "scripts/convert_images.py"},
    {"mnist.npz", "scripts/convert_images.py"},
    {"k49-train-imgs.npz", "scripts/convert_images.py"},
    {"mnist_train.csv", "scripts/convert_images.py"},
    {"train_32x32.mat", "scripts/convert_images.py"},
    {"stl10_binary/x", "scripts/convert_images.py"},
    {"photos.h5", "--dataset packed"},
};

TEST_F(DataFolder, NamesOtherDataAndTheWayOn) {
  for (const auto& [name, way] : kOthers) {
    const fs::path other = folder_ / "other", path = other / name;
    fs::create_directories(path.parent_path());
    if (name.starts_with("train/") || name.ends_with("/raw"))
      fs::create_directory(path);
    else
      put(path, "");
    each([&](const DatasetEntry& entry) {
      const std::string own = fmt::format("--dataset {}", entry.name.substr(0, 7));
      if (own == way || way == "fashion-mnist" || (entry.name == "mnist" && name.ends_with("/raw")))
        return;  // its own files, which are damaged
      const std::string text = refusal(entry, other);
      EXPECT_TRUE(mentions(text, {other.c_str(), way})) << name;
      EXPECT_EQ(text.find("damaged"), std::string::npos) << text;
      EXPECT_EQ(text.find("get_data.sh " + std::string(entry.name) + " " + other.string()),
                std::string::npos)
          << text;
    });
    fs::remove_all(other);
  }
}

TEST_F(DataFolder, DoesNotSuggestTheSameDataSet) {
  for (const auto& [set, name] :
       {std::pair("cifar10", "cifar-10-batches-bin"), {"mnist", "MNIST"}}) {
    const fs::path folder = folder_ / set;
    fs::create_directories(folder / name);
    const std::string text = refusal(find(datasets(), std::string_view(set)), folder);
    EXPECT_TRUE(mentions(text, {"cannot open", "scripts/get_data.sh"}));
    EXPECT_EQ(text.find("--dataset"), std::string::npos) << text;
  }
}

/// A file of its own that is damaged is not blamed on its neighbours.
TEST_F(DataFolder, DoesNotBlameOtherFilesForADamagedOne) {
  put(folder_ / "mnist.npz", "");
  for (const auto& [set, file] :
       {std::pair("cifar10", "data_batch_1.bin"), {"mnist", "train-labels-idx1-ubyte"}}) {
    put(folder_ / file, "short");
    const std::string text = refusal(find(datasets(), std::string_view(set)), folder_.path());
    EXPECT_TRUE(mentions(text, {file, "truncated", "scripts/get_data.sh"}));
    EXPECT_EQ(text.find("npz"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace lockstep
