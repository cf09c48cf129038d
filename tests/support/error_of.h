// Errors as tests look at them. Free of fmt, for tests with bodies of their own.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/error.h"

namespace lockstep {

/// The text of the Error that `body` throws; fails the test if it throws none.
inline std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no Error was thrown";
  return "";
}

/// Succeeds if `text` contains each of `words`: names, values and terms, not whole sentences.
inline testing::AssertionResult mentions(std::string_view text,
                                         const std::vector<std::string_view>& words) {
  for (const std::string_view word : words) {
    if (text.find(word) == std::string_view::npos)
      return testing::AssertionFailure() << "no '" << word << "' in: " << text;
  }
  return testing::AssertionSuccess();
}

}  // namespace lockstep
