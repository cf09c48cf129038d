// The end of an error: what to do if --data lacks the files of a data set that can be downloaded.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// For the end of an error: --dataset folder or hdf5 if `directory` holds such images, else a
/// command that downloads data set `name`. The command writes to `directory` only if that is new,
/// empty, or holds nothing but `files`, which are the names that scripts/get_data.sh writes.
std::string download_cure(std::string_view name, const std::filesystem::path& directory,
                          std::span<const std::string_view> files);

}  // namespace lockstep
