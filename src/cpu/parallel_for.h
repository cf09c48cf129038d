// The loop over parts for host code: src/cpu, src/each.h and whoever reads samples on the host.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lockstep {

/// Calls part(begin, end) for contiguous parts of 0 .. n-1, one per thread of at most `threads`,
/// none shorter than `grain`. Returns when all are done.
template <class Part>
void parallel_for(int threads, std::int64_t n, std::int64_t grain, Part part) {
  const std::int64_t parts =
      std::clamp<std::int64_t>(n / std::max<std::int64_t>(grain, 1), 1, threads);
  if (parts == 1) {
    part(std::int64_t{0}, n);
    return;
  }
#pragma omp parallel for num_threads(static_cast <int>(parts)) schedule(static, 1)
  for (std::int64_t p = 0; p < parts; ++p) part(n * p / parts, n * (p + 1) / parts);
}

}  // namespace lockstep
