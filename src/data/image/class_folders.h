// Folders with a sub-folder of images for each class.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace lockstep {

/// The names of the sub-folders of `folder`, sorted. Throws Error if there are fewer than `least`,
/// or if a name has a control character.
std::vector<std::string> class_names(const std::filesystem::path& folder, std::size_t least = 2);

struct FoundFile {
  std::string name;         ///< relative to the folder of its class
  std::uint64_t bytes = 0;  ///< 0 also if they cannot be counted
};

/// The files of a class, those in its sub-folders included, in an order that only names decide.
/// Hidden files and folders are left out. A link to a folder around the class is not followed: it
/// leads to the images of other classes.
std::vector<FoundFile> files_of_class(const std::filesystem::path& folder);

/// Throws Error unless `names` of folder `a` and `others` of folder `b` are the same.
void require_same_classes(const std::filesystem::path& a, const std::vector<std::string>& names,
                          const std::filesystem::path& b, const std::vector<std::string>& others);

/// Throws the usage Error if the checkpoint, with the classes `known`, lacks one of `names`, the
/// classes of `folder`.
void require_known_classes(const std::filesystem::path& folder,
                           const std::vector<std::string>& names,
                           const std::vector<std::string>& known);
/// Turns labels, places in `names`, into places in `known`.
void relabel(std::vector<std::int32_t>& labels, const std::vector<std::string>& names,
             const std::vector<std::string>& known);

}  // namespace lockstep
