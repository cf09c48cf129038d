// A folder of photos in one HDF5 file, for file systems that suffer from small files. The images
// stay encoded, so training reads the same bytes as from the folder.
//
// For each part, train, val and test: images (bytes of all files), ends (of each image in images),
// labels, crc32c (of each image), names (each ends with a NUL). For both: classes (a line each),
// others, index_crc32c (of all arrays without images, in the order ends, labels, crc32c, names of
// each part, then classes and others).
#pragma once

#include <filesystem>

#include "src/data/dataset.h"

namespace lockstep {

/// Writes the images of source.place.folder() to the new file `path`, complete or not at all.
/// Returns the bytes of all images. Throws Error with the fix.
std::uint64_t pack_images(const DataSource& source, const std::filesystem::path& path,
                          std::vector<std::string>& notes);

/// The data set in the file source.place.folder().
OpenedData open_packed(const DataSource& source);
/// DatasetEntry::open_test.
OpenedData open_test_packed(const DataSource& source, const DataOfCheckpoint& trained);

}  // namespace lockstep
