#include "src/data/sets/download_cure.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

bool holds_only(const fs::path& directory, std::span<const std::string_view> files) {
  std::error_code error;
  if (fs::status(directory, error).type() == fs::file_type::not_found) return true;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(".")) continue;
    const auto is_name = [&](std::string_view file) {
      return name == file || name == std::string(file) + ".part";
    };
    if (std::none_of(files.begin(), files.end(), is_name)) return false;
  }
  return !error;
}

}  // namespace

std::string download_cure(std::string_view name, const fs::path& directory,
                          std::span<const std::string_view> files) {
  std::error_code none;
  if (fs::is_directory(directory / "train", none)) {
    return fmt::format("{} contains a folder train/. Pass --dataset folder to train on it.",
                       directory.string());
  }
  if (fs::exists(directory / "train.h5", none)) {
    return fmt::format("{} contains train.h5. Pass --dataset hdf5 to train on it.",
                       directory.string());
  }
  return fmt::format("Download the data set: scripts/get_data.sh {} {}", name,
                     holds_only(directory, files) ? directory.string() : "NEW_FOLDER");
}

}  // namespace lockstep
