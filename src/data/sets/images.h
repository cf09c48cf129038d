// Images that stay in memory as bytes, whole and of one size, and how a network sees them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/data/dataset.h"

namespace lockstep {

class Hdf5Reader;

/// The pixels by which training moves a whole image, by default.
inline constexpr int kMoves = 4;

/// Images and labels of one part of a data set.
struct ImageStore {
  ImageSize size;
  std::vector<std::uint8_t> pixels;
  std::vector<std::int32_t> labels;
  std::vector<std::string> files = {};  ///< their paths; empty: they are no files
};

/// All numbers of an array, each in [0, high]. Throws Error that names the first other one;
/// `advice` ends it.
std::vector<float> whole_numbers(const Hdf5Reader& reader, const std::string& path,
                                 const std::string& name, std::int64_t high,
                                 std::string_view advice);

/// Images in memory as a data set. `about` is Dataset::describe(). Any number of threads may read.
class StoredImages : public Dataset {
 public:
  StoredImages(const SampleFormat& format, ImageStore store, int classes, std::string about)
      : Dataset(format), store_(std::move(store)), classes_(classes), about_(std::move(about)) {}

  std::int64_t size() const override { return std::ssize(store_.labels); }
  int classes() const override { return classes_; }
  std::int32_t label(std::int64_t index) const override { return store_.labels[index]; }
  std::string file(std::int64_t index) const override {
    return store_.files.empty() ? "" : store_.files[index];
  }
  const std::uint8_t* stored(std::int64_t index, std::uint8_t*) const override {
    return store_.pixels.data() + index * store_.size.count();
  }
  std::string describe() const override { return about_; }
  std::size_t bytes() const override {
    return store_.pixels.size() + store_.labels.size() * sizeof(std::int32_t);
  }

 private:
  ImageStore store_;
  int classes_;
  std::string about_;
};

/// A data set of two stores of images of one size, standardised by the training images' mean and
/// deviation. `name` and `from` are for people.
OpenedData image_datasets(ImageStore train, ImageStore test, std::vector<std::string> class_names,
                          const std::string& name, const std::string& from);

/// Only the test set, normalised as in `trained`.
OpenedData test_images(ImageStore test, const DataOfCheckpoint& trained, const std::string& name,
                       const std::string& from);

/// The folder holds train/CLASS/IMAGE and test/CLASS/IMAGE: image files of one size, or of any with
/// ImageOptions::size (photos.h). Throws
/// Error that names the file or folder, what is wrong, and the fix.
OpenedData open_folder(const DataSource& source);
/// DatasetEntry::open_test. The folder needs only test/, which may hold only some of the classes.
OpenedData open_test_folder(const DataSource& source, const DataOfCheckpoint& trained);

/// The folder holds train.h5 and test.h5, with arrays images (N, H, W, C or N, H, W; 0 to 255) and
/// labels (N).
OpenedData open_hdf5_images(const DataSource& source);
/// DatasetEntry::open_test. The folder needs only test.h5.
OpenedData open_hdf5_test_images(const DataSource& source, const DataOfCheckpoint& trained);

}  // namespace lockstep
