// Checks an error in one line: it is thrown, and it names what matters.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <source_location>
#include <string_view>
#include <vector>

#include "tests/support/error_of.h"

namespace lockstep {

/// Expects that `body` throws an Error that contains each of `words`: names, values and terms.
inline void expect_error(const std::vector<std::string_view>& words,
                         const std::function<void()>& body,
                         std::source_location where = std::source_location::current()) {
  const testing::ScopedTrace caller(where.file_name(), static_cast<int>(where.line()), "");
  EXPECT_TRUE(mentions(error_of(body), words));
}

}  // namespace lockstep
