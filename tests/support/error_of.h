// Errors as tests look at them. Free of fmt, for tests with bodies of their own.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

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

}  // namespace lockstep
