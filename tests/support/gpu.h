// Tests that want a GPU, where there may be none. For builds with the CUDA back end.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include "src/device/cuda/device.h"

namespace lockstep {

/// 0 where this process finds a GPU. Else 77, by which ctest knows a skipped test, or 1 where
/// LOCKSTEP_REQUIRE_GPU is set to anything but 0, with one line that says why.
inline int skip_without_gpu() {
  const std::string why = why_no_cuda_device();
  if (why.empty()) return 0;
  const char* required = std::getenv("LOCKSTEP_REQUIRE_GPU");
  const bool fails = required != nullptr && *required != '\0' && std::string(required) != "0";
  std::printf("%s: %s\n", fails ? "LOCKSTEP_REQUIRE_GPU is set" : "skipped", why.c_str());
  return fails ? 1 : 77;
}

}  // namespace lockstep
