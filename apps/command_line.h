// What the programs share about command lines: errors that name the nearest option.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace lockstep {

/// " (did you mean --lr?)" where an option of `app` is near to `name`, with `prefix` in front of
/// its name.
std::string hint(const CLI::App& app, std::string_view name, std::string_view prefix);

/// Throws the usage error for the first of app.remaining(): words that CLI11 did not understand.
[[noreturn]] void fail_extra(const CLI::App& app);

}  // namespace lockstep
