// The loop over parts for host code: src/device/cpu, src/device/each.h and whoever reads samples on
// the host.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lockstep {

template <class Part>
void call_part(const Part& part, std::int64_t begin, std::int64_t end) {
  part(begin, end);
}

/// Calls part(begin, end) for contiguous parts of 0 .. n-1, one per thread of at most `threads`,
/// none shorter than `grain`. Returns when all are done.
///
/// A compiler is free to fuse a product and a sum, and need not do so alike in two copies of a
/// loop. There is one copy here for one thread and for several, and bits do not depend on which.
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
