// The samples that evaluate takes from a folder: the run's own share, or all of another folder, and
// never training images without a note.
#include <gtest/gtest.h>

#include <set>

#include "apps/record/checkpoint_use.h"
#include "apps/record/data_facts.h"
#include "src/base/table.h"
#include "src/data/image/packed.h"
#include "src/data/normalisation.h"
#include "src/data/validation.h"
#include "src/files/hdf5.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"
#include "tests/support/image_bytes.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

void write_image(const fs::path& file, int value) {
  put_image(file, png_of(Bytes(8 * 8 * 3, static_cast<std::uint8_t>(value)), 8, 8));
}

/// `count` images of each class in folder/CLASS, with names that begin with `prefix`.
void make(const fs::path& folder, const std::string& classes, int count,
          const std::string& prefix) {
  for (const char name : classes)
    for (int i = 0; i < count; ++i)
      write_image(folder / std::string(1, name) / (prefix + std::to_string(i) + ".png"), i);
}

class EvaluatedData : public testing::Test {
 protected:
  /// The checkpoint of a run on `data`.
  EvaluatedCheckpoint trained_on(const fs::path& data, double validation,
                                 const char* dataset = "folder", int size = 8) {
    DataSource source{.place = {{data}}, .validation = validation};
    source.images.size = size;
    const OpenedData pair = open_data(find(datasets(), dataset), source);
    seen_ = pair.evaluated().size();
    fs::create_directories(root_ / "run");
    keep_fingerprints(root_ / "run", pair);
    EvaluatedCheckpoint checkpoint{.file = root_ / "run/checkpoints/c.h5",
                                   .dataset = dataset,
                                   .model = "m",
                                   .precision = "fp32",
                                   .weights = "raw"};
    const SampleFormat& format = pair.train->format();
    checkpoint.images = {.class_names = pair.class_names,
                         .normalisation = to_text(format.normalisation, format.size.channels),
                         .format = to_text(format),
                         .identity = pair.identity,
                         .place = {{data}},
                         .validation = dataset == std::string("packed") ? 0 : validation};
    return checkpoint;
  }
  /// The number of samples that evaluate takes from `data`; notes_ are its notes.
  std::int64_t taken(const EvaluatedCheckpoint& checkpoint, const fs::path& data) {
    notes_.clear();
    return open_test_set(checkpoint, {{data}}, {}, notes_).test->size();
  }
  bool noted(const std::string& words) const {
    return std::any_of(notes_.begin(), notes_.end(),
                       [&](const std::string& note) { return note.find(words) != note.npos; });
  }
  std::string all_notes() const { return fmt::format("{}", fmt::join(notes_, "; ")); }

  TemporaryDirectory root_;
  std::vector<std::string> notes_;
  std::int64_t seen_ = 0;  ///< samples that evaluations of the run see
};

TEST_F(EvaluatedData, EachSampleNamesItsFile) {
  for (const char* part : {"train", "test"}) make(root_ / "own" / part, "abc", 9, "x");
  for (const int size : {0, 8}) {  // in memory, and decoded when they are read
    DataSource source{.place = {{root_ / "own"}}, .validation = 0.3};
    source.images.size = size;
    const OpenedData data = open_data(find(datasets(), "folder"), source);
    std::set<std::string> files;
    for (const Dataset* set : {data.train.get(), data.validation.get(), data.test.get()}) {
      ASSERT_GT(set->size(), 0);
      for (std::int64_t i = 0; i < set->size(); ++i) {
        const fs::path file = set->file(i);
        EXPECT_TRUE(fs::exists(file)) << file;
        EXPECT_EQ(file.parent_path().filename(), data.class_names[set->label(i)]);
        EXPECT_EQ(file.parent_path().parent_path().filename() == "test", set == data.test.get());
        files.insert(file);
      }
    }
    EXPECT_EQ(files.size(), 2u * 3 * 9);
  }
}

TEST_F(EvaluatedData, TheFolderOfTheRunGivesTheShareThatItKept) {
  make(root_ / "own", "ab", 40, "x");
  const EvaluatedCheckpoint checkpoint = trained_on(root_ / "own", 0.25);
  ASSERT_GT(seen_, 0);
  ASSERT_LT(seen_, 40);
  fs::copy(root_ / "own", root_ / "copy", fs::copy_options::recursive);
  fs::create_directory_symlink(root_ / "own", root_ / "link");
  for (const char* name : {"own", "own/", "own/../own", "link", "copy"}) {
    EXPECT_EQ(taken(checkpoint, root_ / name), seen_) << name;
    EXPECT_TRUE(noted(fmt::format("{} of 80 images", seen_))) << all_notes();
    EXPECT_FALSE(noted("differ")) << all_notes();
  }
  write_image(root_ / "own/a/w.png", 7);
  EXPECT_LE(taken(checkpoint, root_ / "own"), seen_ + 1);
  EXPECT_TRUE(noted(" of 81 images") && noted("differ")) << all_notes();
  EXPECT_TRUE(noted("have changed") && !noted("kept from training")) << all_notes();
}

TEST_F(EvaluatedData, AnotherFolderGivesAllImages) {
  make(root_ / "own", "abc", 40, "x");
  const EvaluatedCheckpoint checkpoint = trained_on(root_ / "own", 0.25);
  make(root_ / "other", "abc", 50, "y");
  fs::remove_all(root_ / "own");  // the run knows its samples
  EXPECT_EQ(taken(checkpoint, root_ / "other"), 150);
  EXPECT_TRUE(noted("120 of 150 evaluated samples are training samples")) << all_notes();
  EXPECT_TRUE(noted("150 of 150 images")) << all_notes();
  make(root_ / "some", "b", 9, "x");  // names that the run has too
  EXPECT_EQ(taken(checkpoint, root_ / "some"), 9);
  EXPECT_TRUE(noted("9 of 9 images")) << all_notes();
  make(root_ / "parts/Testing", "ac", 5, "y");
  make(root_ / "parts/valid", "ac", 3, "y");
  EXPECT_EQ(taken(checkpoint, root_ / "parts"), 10);
  EXPECT_EQ(taken(checkpoint, root_ / "parts/valid"), 6);
  make(root_ / "strange", "bd", 5, "y");
  expect_error({"strange", "d"}, [&] { taken(checkpoint, root_ / "strange"); });
}

TEST_F(EvaluatedData, OfPartsMayBeNamedThemselves) {
  make(root_ / "own/train", "ab", 20, "x");
  make(root_ / "own/test", "ab", 6, "y");
  const EvaluatedCheckpoint checkpoint = trained_on(root_ / "own", 0);
  for (const char* name : {"own", "own/test", "own/test/"}) {
    EXPECT_EQ(taken(checkpoint, root_ / name), 12) << name;
    EXPECT_TRUE(notes_.empty()) << all_notes();
  }
  fs::copy(root_ / "own/train", root_ / "copy", fs::copy_options::recursive);
  for (const char* name : {"own/train", "own/train/", "copy"}) {
    EXPECT_EQ(taken(checkpoint, root_ / name), 40) << name;
    EXPECT_TRUE(noted("training samples")) << name << ": " << all_notes();
  }
  write_image(root_ / "own/train/a/w.png", 7);
  EXPECT_EQ(taken(checkpoint, root_ / "own/train"), 41);
  EXPECT_TRUE(noted("training samples")) << all_notes();
  fs::remove_all(root_ / "own/test");
  expect_error({"train", "test"}, [&] { taken(checkpoint, root_ / "own"); });
}

TEST_F(EvaluatedData, OfADividedTrainFolderIsItsShare) {
  make(root_ / "own/train", "ab", 40, "x");
  const EvaluatedCheckpoint checkpoint = trained_on(root_ / "own", 0.25);
  EXPECT_EQ(taken(checkpoint, root_ / "own"), seen_);
  EXPECT_TRUE(noted(fmt::format("{} of 80 images", seen_))) << all_notes();
  make(root_ / "other/train", "ab", 10, "y");
  expect_error({"other/train"}, [&] { taken(checkpoint, root_ / "other"); });
}

TEST_F(EvaluatedData, OfOneSizeInMemoryIsTheSame) {
  make(root_ / "own/train", "ab", 20, "x");
  make(root_ / "own/test", "ab", 6, "y");
  const EvaluatedCheckpoint checkpoint = trained_on(root_ / "own", 0, "folder", 0);
  make(root_ / "other", "b", 7, "z");
  EXPECT_EQ(taken(checkpoint, root_ / "own"), 12);
  EXPECT_EQ(taken(checkpoint, root_ / "other"), 7);
  EXPECT_EQ(taken(checkpoint, root_ / "own/train"), 40);
  EXPECT_TRUE(noted("training samples")) << all_notes();
}

TEST_F(EvaluatedData, OfPackedImagesIsAPart) {
  const auto pack = [&](const char* folder, double validation) {
    DataSource source{.place = {{root_ / folder}}, .validation = validation};
    std::vector<std::string> notes;
    const fs::path file = root_ / (folder + std::string(".h5"));
    pack_images(source, file, notes);
    return file;
  };
  make(root_ / "own", "abc", 40, "x");
  make(root_ / "other/train", "abc", 10, "y");
  make(root_ / "other/test", "abc", 4, "z");
  const fs::path own = pack("own", 0.25), other = pack("other", 0);
  const EvaluatedCheckpoint checkpoint = trained_on(own, 0, "packed");
  EXPECT_EQ(taken(checkpoint, own), seen_);
  EXPECT_TRUE(noted(fmt::format("{} of 120 images", seen_))) << all_notes();
  EXPECT_EQ(taken(checkpoint, other), 12);
  EXPECT_TRUE(noted("12 of 42 images")) << all_notes();
}

TEST_F(EvaluatedData, OfArraysForTrainingIsNoted) {
  fs::create_directories(root_ / "arrays");
  for (const auto& [name, count] : {std::pair("train.h5", 6), {"test.h5", 4}}) {
    Hdf5Writer writer(root_ / "arrays" / name);
    std::vector<float> images(count * 48), labels(count);
    for (std::size_t i = 0; i < images.size(); ++i) images[i] = static_cast<float>(i % 200);
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<float>(i % 2);
    writer.array("images", {count, 4, 4, 3}, images);
    writer.array("labels", {count}, labels);
    writer.commit();
  }
  const EvaluatedCheckpoint checkpoint = trained_on(root_ / "arrays", 0, "hdf5", 0);
  EXPECT_EQ(taken(checkpoint, root_ / "arrays"), 4);
  EXPECT_TRUE(notes_.empty()) << all_notes();
  fs::copy_file(root_ / "arrays/train.h5", root_ / "arrays/test.h5",
                fs::copy_options::overwrite_existing);
  EXPECT_EQ(taken(checkpoint, root_ / "arrays"), 6);
  EXPECT_TRUE(noted("training samples")) << all_notes();
}

}  // namespace
}  // namespace lockstep
