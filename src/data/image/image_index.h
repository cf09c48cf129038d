// The image files of a folder of photos, by part and class, and the check of these files.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "src/data/dataset.h"
#include "src/data/rows/rows.h"

namespace lockstep {

/// Labelled image files, those of a class side by side.
struct LabelledFiles {
  std::string folder = {};
  std::vector<std::string> names = {};  ///< relative to `folder`, or absolute paths
  std::vector<std::int32_t> labels = {};
  int classes = 0;
  /// The size of each file when it was found. Empty: sizes are not known.
  std::vector<std::uint64_t> bytes = {};
  /// The checksum_of_ends() of each file when it was checked, or that of a whole packed image.
  /// Empty: they are not known.
  std::vector<std::uint32_t> checksums = {};
  bool packed = false;

  std::int64_t size() const { return std::ssize(names); }
  std::string path(std::int64_t index) const {
    const std::string& name = names[index];
    return folder.empty() || name.starts_with('/') ? name : folder + "/" + name;
  }
  void add(std::string name, std::int32_t label, std::uint64_t count);
  /// Dataset::fingerprint() of a file, of its size and its checksum.
  std::uint64_t fingerprint(std::int64_t index) const {
    return bytes[index] << 32 ^ checksums[index];
  }
  /// Moves file `index` of `all` to the end, with all that is known about it.
  void take(LabelledFiles& all, std::int64_t index);
};

struct ImageIndex : RowSummary {
  std::array<LabelledFiles, kParts> parts = {};  ///< by SetPart

  std::int64_t size() const;  ///< files of all parts
  /// The folders, and the table if there is one: for people.
  std::string place(const DataSource& source) const {
    return table.empty() || source.place.several()
               ? source.place.text()
               : fmt::format("{}, labelled by {}", source.place.text(), table);
  }
  /// OpenedData::identity: the names, classes, sizes and checksums of the files, and the names of
  /// the classes if there are training images.
  std::string identity() const;
};

/// Finds the image files in source.place.folder(): CLASS folders, in train/ or without it, and
/// val/CLASS or test/CLASS or both, by the names of part_named(); or those of a table
/// (src/data/rows/image_rows.h). DataSource::validation is the share of validation images among the
/// training images if there is no val/; the name of a file decides. One rank of a host reads the
/// folders. All of them check the files together, by ImageOptions::check. Damaged files are left
/// out with a note if ImageOptions::skips(); else they are named in one Error. The same on all
/// ranks of a host. Throws Error with the fix.
ImageIndex find_images(const DataSource& source);
/// Only the images of test/, else of val/, with labels of the checkpoint's classes. If there are
/// only class folders: those of the folder of the run that it kept from training, or all of another
/// folder. A note counts them.
ImageIndex find_test_images(const DataSource& source, const DataOfCheckpoint& trained);

/// Throws DamagedImage if a file's header or end is damaged, or if `whole`, if it cannot be
/// decoded. An end that is not its format's makes the check decode the file. Throws MissingImage,
/// and other Errors if the file cannot be read now. Returns its checksum_of_ends().
std::uint32_t check_image(const std::filesystem::path& file, bool whole);
/// The CRC-32C of the first and the last 4096 bytes of a file, which check_image() reads anyway.
std::uint32_t checksum_of_ends(std::span<const std::uint8_t> file);

}  // namespace lockstep
