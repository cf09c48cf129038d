// Folders with a sub-folder of images for each class.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "src/data/names.h"
#include "src/data/rows/rows.h"

namespace lockstep {

/// The sub-folders of a folder, without those of systems and tools, and without runs/ of --run.
struct Folders {
  std::filesystem::path path;
  std::vector<std::string> classes = {};                 ///< names, sorted
  std::array<std::filesystem::path, kParts> parts = {};  ///< by SetPart; empty: there is none

  /// Throws the usage Error if our classes are parts of a data set: all contain only folders, with
  /// the same names in each, or all have names of parts.
  void refuse_parts() const;
};

/// Parts by part_named(). Throws Error if two folders are the same part, or if a name has a control
/// character.
Folders folders_in(const std::filesystem::path& folder);

/// folders_in() of a whole data set. A folder of folders is a part by part_in() too, if none has
/// the part's own name. A part that contains only one more folder of the part is that folder.
Folders parts_in(const std::filesystem::path& folder);

struct FoundFile {
  std::string name;         ///< relative to the folder of its class
  std::uint64_t bytes = 0;  ///< 0 also if they cannot be counted
};

/// The files of a class, those in its sub-folders included, in an order that only names decide.
/// Those of systems and tools are left out. A link to a folder around the class is not followed: it
/// leads to the images of other classes.
std::vector<FoundFile> files_of_class(const std::filesystem::path& folder);

/// Appends the files in the class folders of `inner`, the folder of `part`. Their names are
/// `prefix`CLASS/FILE. Files whose names are not `wanted` are only counted. Threads read the folders.
void add_classes(const Folders& inner, SetPart part, const DataSource& source,
                 bool (*wanted)(const std::filesystem::path&), Rows& all,
                 const std::string& prefix = "");

/// The images in the class folders of all source.place.folders. Without train/ the classes of a
/// folder are for training. One folder: names are relative to the folder of their part, and
/// Rows::classes are its class folders, even without images. Several: names are relative to the
/// first one. With `tested` only the part that evaluate sees in each folder: test, else validation,
/// else training. Throws Error with the fix.
Rows read_class_folders(const DataSource& source, bool tested);

}  // namespace lockstep
