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
  virtual ~EncodedImages() = default;
  virtual std::int64_t size() const = 0;
  virtual std::int32_t label(std::int64_t index) const = 0;
  /// The path of its file, or of its part of a packed file.
  virtual std::string name(std::int64_t index) const = 0;
  /// LabelledFiles::fingerprint().
  virtual std::uint64_t fingerprint(std::int64_t index) const = 0;
  /// The bytes of its file. Throws DamagedImage, and Error that names the file if it cannot be read
  /// now or has changed.
  virtual std::vector<std::uint8_t> read(std::int64_t index) const = 0;
  /// The command or option that finds all damaged images.
  virtual const char* full_check() const { return "--check-images decode"; }
  virtual std::size_t memory() const = 0;  ///< in bytes
};

std::shared_ptr<const EncodedImages> encoded_images(LabelledFiles files);

/// The median of the shorter edges of at most nine images, evenly spread, in pixels; 0: none can be
/// read.
std::int64_t usual_edge(const EncodedImages& images);
/// DatasetEntry::usual_edge of a folder: of the first three images of the first three classes.
std::int64_t usual_edge_in(const std::filesystem::path& folder);

/// A data set of `images` whose samples are options.size x options.size x options.channels(), as of
/// SampleFormat::Kind::values. Training draws a crop (random_box), the flips, and the changes of
/// colours. It decodes JPEG files at a lower resolution if enough pixels are left. Evaluation sees
/// the middle, 7/8 of the shorter edge, and decodes in full, as other programs do. `normalisation`:
/// of pixels from 0 to 255. read() throws DamagedImage if the file cannot be decoded.
std::unique_ptr<Dataset> photos(std::shared_ptr<const EncodedImages> images, int classes,
                                const ImageOptions& options, const Normalisation& normalisation,
                                std::string about);

/// Mean and deviation of the images of ImageNet, as torchvision's pretrained networks expect them.
/// One channel: those of its grey images.
Normalisation imagenet_normalisation(std::int64_t channels);

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
/// For ImageOptions::size > 0: find_images() as a data set.
OpenedData open_photos(const DataSource& source);
/// DatasetEntry::open_test: find_test_images() as a data set.
OpenedData open_test_photos(const DataSource& source, const DataOfCheckpoint& trained);

}  // namespace lockstep
