// The folder --data of a data set whose files have fixed names, and the end of its errors: what to
// do if it lacks these files or holds others.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace lockstep {

/// A data set whose files have fixed names.
struct StoredSet {
  std::string_view name;  ///< of the registry
  const char* downloaded =
      "";  ///< the names that scripts/get_data.sh writes, as a pattern of fnmatch()
  std::string_view cure = {};  ///< what to do if that cannot download the data set
};

/// Returns the end of errors about the files of `set` in `directory`: what to do. If `first`, one
/// of its files, is not there, and `directory` holds an archive or another well-known data set, the
/// sentences name that and the way on. Otherwise it is a command that downloads `set`. That writes
/// to `directory` only if it is empty or holds nothing but `set.downloaded`. Throws Error if
/// `directory` is empty, does not exist, or cannot be read as a folder.
std::string look_into(const StoredSet& set, const std::filesystem::path& directory,
                      const std::filesystem::path& first);

/// The names in `directory` that are not hidden, sorted. Those of folders end with a slash.
std::vector<std::string> names_in(const std::filesystem::path& directory, std::error_code& error);

/// Throws Error: `path` cannot be opened because of `error`, an errno. `cure` is for a file that
/// does not exist.
[[noreturn]] void fail_to_open(const std::filesystem::path& path, int error, std::string_view cure);

}  // namespace lockstep
