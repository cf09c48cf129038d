// Image files of any size, which are decoded when they are read: no image stays in memory.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "src/data/dataset.h"
#include "src/data/image/image_index.h"

namespace lockstep {

/// Encoded images by number. Any number of threads may read.
class EncodedImages {
 public:
  explicit EncodedImages(LabelledFiles files) : files_(std::move(files)) {}
  virtual ~EncodedImages() = default;
  /// Packed images have paths within their file.
  const LabelledFiles& files() const { return files_; }
  /// The bytes of its file. Throws DamagedImage, and Error that names the file if it cannot be read
  /// now or has changed.
  virtual std::vector<std::uint8_t> read(std::int64_t index) const = 0;
  std::size_t memory() const;  ///< of names and labels, in bytes

 private:
  LabelledFiles files_;
};

std::shared_ptr<const EncodedImages> encoded_images(LabelledFiles files);

/// The median of the shorter edges of at most nine images, evenly spread, in pixels; 0: none can be
/// read.
std::int64_t usual_edge(const EncodedImages& images);
/// DatasetEntry::usual_edge of a folder: of the first three images of the first three classes.
std::int64_t usual_edge_in(const std::filesystem::path& folder);

/// Files as evaluation sees the samples of a data set of this format. If the format is not of
/// files, the largest part in the middle with the format's proportions becomes a stored sample.
std::unique_ptr<Dataset> images_for_use(LabelledFiles files, const SampleFormat& format);

/// The share of each edge that evaluation sees of the largest part in the middle with the
/// proportions of a sample.
double seen_share(const SampleFormat& format);

/// The images of each part; null: the part has none.
using PartImages = std::array<std::shared_ptr<const EncodedImages>, kParts>;

/// The parts of `index`, whose images are `images`. With `trained` only the test images, or the
/// validation images if there are none, with labels of the checkpoint's classes.
OpenedData photo_sets(ImageIndex index, PartImages images, const DataSource& source,
                      const DataOfCheckpoint* trained);

/// photo_sets() of files.
OpenedData photo_files(ImageIndex index, const DataSource& source, const DataOfCheckpoint* trained);

}  // namespace lockstep
