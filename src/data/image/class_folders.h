// Folders with a sub-folder of images for each class.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "src/data/names.h"

namespace lockstep {

/// The sub-folders of a folder, without those of systems and tools, and without runs/ of --run.
struct Folders {
  std::filesystem::path path;
  std::vector<std::string> classes = {};                 ///< names, sorted
  std::array<std::filesystem::path, kParts> parts = {};  ///< by SetPart; empty: there is none

  /// The names of the classes. Throws Error if there are fewer than `least`.
  const std::vector<std::string>& at_least(std::size_t least) const;
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

/// Throws the usage Error if one folder in `root` has train/: archives often unpack to one more
/// folder.
void look_inside(const Folders& root);

struct FoundFile {
  std::string name;         ///< relative to the folder of its class
  std::uint64_t bytes = 0;  ///< 0 also if they cannot be counted
};

/// The files of a class, those in its sub-folders included, in an order that only names decide.
/// Those of systems and tools are left out. A link to a folder around the class is not followed: it
/// leads to the images of other classes.
std::vector<FoundFile> files_of_class(const std::filesystem::path& folder);

/// Throws the usage Error if `known`, the classes of `owner`, lack one of `names`, the classes of
/// `folder`.
void require_known_classes(const std::filesystem::path& folder,
                           const std::vector<std::string>& names,
                           const std::vector<std::string>& known,
                           const std::string& owner = "the checkpoint");
/// Turns labels, places in `names`, into places in `known`.
void relabel(std::vector<std::int32_t>& labels, const std::vector<std::string>& names,
             const std::vector<std::string>& known);

}  // namespace lockstep
