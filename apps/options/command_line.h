// Command lines of all programs: errors that name the nearest option, and paths.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace lockstep {

/// " (did you mean --lr?)" where an option of `app` is near to `name`, with `prefix` in front of
/// its name.
std::string hint(const CLI::App& app, std::string_view name, std::string_view prefix);

/// `path` with $HOME for a leading "~", which no shell expands in a file of options, in quotes or
/// behind "=". Throws the usage error, which begins with `option`, if there is no HOME, and for the
/// "~name" of another user.
std::string home_path(std::string_view option, const std::string& path);

/// Throws the usage error for the first of app.remaining(): words that CLI11 did not understand.
[[noreturn]] void fail_extra(const CLI::App& app);

}  // namespace lockstep
