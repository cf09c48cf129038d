// The elementwise loop. Bodies are lambdas over an index; they touch only elements that belong to
// that index.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/device.h"

namespace lockstep {

/// Calls part(begin, end) for contiguous parts of 0 .. n-1, one per thread of the stream, none
/// shorter than `grain`.
template <class Part>
void parallel_for(const Stream& stream, std::int64_t n, std::int64_t grain, Part part) {
  const std::int64_t parts =
      std::clamp<std::int64_t>(n / std::max<std::int64_t>(grain, 1), 1, stream.threads);
  if (parts == 1) {
    part(std::int64_t{0}, n);
    return;
  }
#pragma omp parallel for num_threads(static_cast <int>(parts)) schedule(static, 1)
  for (std::int64_t p = 0; p < parts; ++p) part(n * p / parts, n * (p + 1) / parts);
}

/// Calls f(i) for every i in 0 .. n-1, in no promised order, vectorised: no call may depend on
/// another.
template <class F>
void each(const Stream& stream, std::int64_t n, F f) {
  parallel_for(stream, n, 16384, [f](std::int64_t begin, std::int64_t end) {
#pragma GCC ivdep
    for (std::int64_t i = begin; i < end; ++i) f(i);
  });
}

}  // namespace lockstep
