// Image files of any size, which are decoded when they are read: no image stays in memory.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "src/data/dataset.h"

namespace lockstep {

/// Labelled image files.
struct LabelledFiles {
  std::filesystem::path folder;
  std::vector<std::string> names;  ///< relative to `folder`
  std::vector<std::int32_t> labels;
  int classes = 0;
};

/// A data set of `files` whose samples are options.size x options.size x 3, as of
/// SampleFormat::Kind::values. Training draws a crop (random_box) and the flips; evaluation sees
/// the middle, 7/8 of the shorter edge. `standard`: of pixels from 0 to 255. read() throws Error
/// that names the file if it cannot be decoded.
std::unique_ptr<Dataset> photos(LabelledFiles files, const ImageOptions& options,
                                const Standard& standard, std::string about);

/// Whether the name ends like that of an image file.
bool has_image_name(const std::filesystem::path& file);

/// Files as evaluation sees the samples of a data set of this format. If the format is not of
/// files, the largest part in the middle with the format's proportions becomes a stored sample.
std::unique_ptr<Dataset> images_for_use(LabelledFiles files, const SampleFormat& format);

/// For ImageOptions::size > 0. The folder has train/CLASS, and val/CLASS or test/CLASS or both, or
/// only CLASS folders. DataSource::validation is the share of validation images among the training
/// images if there is no val/; the name of a file decides. Files that are no images are left out.
/// Throws Error with the fix.
DatasetPair open_photos(const DataSource& source);
/// DatasetEntry::open_test: those of test/, else of val/, else the share of validation images.
DatasetPair open_test_photos(const DataSource& source, const TrainedImages& trained);

}  // namespace lockstep
