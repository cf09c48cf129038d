// Images that stay in memory as bytes, whole and of one size, and how a network sees them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/crc32c.h"
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

/// crc32c() of the bytes of `values`.
template <class T>
std::uint32_t crc32c_of(const std::vector<T>& values) {
  return crc32c({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
}

/// All numbers of an array, each in [0, high]. Throws Error that names the first other one;
/// `advice` ends it.
std::vector<float> whole_numbers(const Hdf5Reader& reader, const std::string& path,
                                 const std::string& name, std::int64_t high,
                                 std::string_view advice);

/// Images in memory as a data set. `about` is Dataset::describe().
std::unique_ptr<Dataset> stored_images(const SampleFormat& format, ImageStore store, int classes,
                                       std::string about);

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
