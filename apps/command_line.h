// What the programs share about command lines: numbers held to a range, and errors that name the
// nearest option.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace lockstep {

/// The smallest number that counts as above 0, and a bound that no number is meant to reach: 2^64,
/// above all seeds.
inline constexpr double kAboveZero = 1e-12, kAnyNumber = 0x1p64;

/// Holds a number to [low, high].
CLI::Validator between(double low, double high);

/// Throws the usage error for the first of app.remaining(): words that CLI11 did not understand.
[[noreturn]] void fail_extra(const CLI::App& app);

/// Throws the usage error for the config file of `app` that CLI11 did not take because of `cause`.
[[noreturn]] void fail_config(const CLI::App& app, const std::string& cause);

}  // namespace lockstep
