// The folder --data of a data set whose files have fixed names, and the end of its errors: what to
// do if it lacks these files or holds others.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace lockstep {

/// Returns the end of errors about the files of data set `set` in `directory`: what to do. If
/// `first`, one of its files, is not there, and `directory` holds an archive or another well-known
/// data set, the sentences name that and the way on. Otherwise it is a command that downloads
/// `set`. That writes to `directory` only if all names in it fit `downloaded`, a pattern of
/// fnmatch() for what scripts/get_data.sh writes; empty: it cannot download `set`. Throws Error if
/// `directory` is empty, does not exist, or cannot be read as a folder.
std::string look_into(std::string_view set, const char* downloaded,
                      const std::filesystem::path& directory, const std::filesystem::path& first);

/// The names in `directory` that are not hidden, sorted. Those of folders end with a slash.
std::vector<std::string> names_in(const std::filesystem::path& directory, std::error_code& error);

/// Throws Error: `path` cannot be opened because of `error`, an errno. `advice` is for a file that
/// does not exist.
[[noreturn]] void fail_to_open(const std::filesystem::path& path, int error,
                               std::string_view advice);

}  // namespace lockstep
