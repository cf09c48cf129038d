// The parallel loop of host code.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lockstep {

template <class Part>
void call_part(const Part& part, std::int64_t begin, std::int64_t end) {
  part(begin, end);
}

/// Calls part(begin, end) for contiguous parts of 0 .. n-1: at most `threads` parts, one per
/// thread, none shorter than `grain`. Returns when all are done.
///
/// A compiler may fuse a product and a sum in one copy of a loop and not in another. So one thread
/// and several threads run the same copy here, and the bits are the same.
template <class Part>
void parallel_for(int threads, std::int64_t n, std::int64_t grain, Part part) {
  void (*volatile const call)(const Part&, std::int64_t, std::int64_t) = call_part<Part>;
  const std::int64_t parts =
      std::clamp<std::int64_t>(n / std::max<std::int64_t>(grain, 1), 1, threads);
  if (parts == 1) {
    call(part, 0, n);
    return;
  }
#pragma omp parallel for num_threads(static_cast <int>(parts)) schedule(static, 1)
  for (std::int64_t p = 0; p < parts; ++p) call(part, n * p / parts, n * (p + 1) / parts);
}

}  // namespace lockstep
