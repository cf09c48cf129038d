// Reading samples with the threads of a device. Reading may throw, and no exception may leave a
// thread of a parallel loop.
#pragma once

#include <cstdint>
#include <exception>
#include <mutex>

#include "src/device/parallel_for.h"

namespace lockstep {

/// parallel_for() that rethrows the first exception of its parts when all parts are done.
template <class Part>
void read_in_parallel(int threads, std::int64_t n, std::int64_t grain, const Part& part) {
  std::mutex mutex;
  std::exception_ptr error;
  parallel_for(threads, n, grain, [&](std::int64_t begin, std::int64_t end) {
    try {
      part(begin, end);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  });
  if (error) std::rethrow_exception(error);
}

}  // namespace lockstep
