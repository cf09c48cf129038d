// Functions that throw an Error with a formatted line.
#pragma once

#include <fmt/format.h>

#include <utility>

#include "src/base/error.h"

namespace lockstep {

/// Throws Error with the formatted line.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(fmt::format(text, std::forward<Args>(args)...));
}

/// Throws Error (kExitUsage) with the formatted line: the user asked for something impossible.
template <class... Args>
[[noreturn]] void fail_usage(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(fmt::format(text, std::forward<Args>(args)...), kExitUsage);
}

/// fail() unless `ok`.
template <class... Args>
void require(bool ok, fmt::format_string<Args...> text, Args&&... args) {
  if (!ok) fail(text, std::forward<Args>(args)...);
}

}  // namespace lockstep
