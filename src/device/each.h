// Elementwise kernels, each(), and row-wise kernels, each_row(): one body serves every back end.
//
// A body is a trivially copyable struct at namespace scope. Its call operator is marked
// HOST_DEVICE. Its members are pointers and constants of the whole run; values that vary from step
// to step are read through a pointer. It calls functions that are constexpr, or templates marked
// HOST_DEVICE. If it has bool idle() const and that returns true when the work would run, nothing
// runs. Floating-point atomics are forbidden, because their sums depend on the order.
//
// A file that includes this one must not include fmt or src/base/check.h, even indirectly
// (tests/unit/floors.cc). With the CUDA back end nvcc compiles such a file, once for both back
// ends. The host's half has the same bits as g++'s.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <type_traits>

#include "src/base/host_device.h"
#include "src/base/round_up.h"
#include "src/device/device.h"
#include "src/device/parallel_for.h"

#if defined(LOCKSTEP_CUDA) && !defined(__CUDACC__)
#error "nvcc must compile this file: run cmake again, which finds the includes of src/device/each.h"
#endif
#ifdef __CUDACC__
#include "src/device/cuda/kernels.h"
#endif
#ifdef LOCKSTEP_HOST_TEAM
#include LOCKSTEP_HOST_TEAM  // for tests: threads share rows as a warp does
#endif

namespace lockstep {

/// total += value, atomically. Integers only, so that the order does not matter.
template <class Integer>
HOST_DEVICE inline void add_atomically(Integer& total, std::type_identity_t<Integer> value) {
  static_assert(std::is_integral_v<Integer> && (sizeof(Integer) == 4 || sizeof(Integer) == 8));
#ifdef __CUDA_ARCH__
  using Word = std::conditional_t<sizeof(Integer) == 8, unsigned long long, unsigned>;
  atomicAdd(reinterpret_cast<Word*>(&total), static_cast<Word>(value));
#else
  std::atomic_ref<Integer>(total).fetch_add(value, std::memory_order_relaxed);
#endif
}

/// The team of a row: `lanes` members; the caller is number `lane`. Each member processes every
/// lanes-th element, and sum(), max() and min() combine their results. On the CPU a team is
/// one thread; on a GPU a warp shares the row (src/device/cuda/kernels.h).
struct Alone {
  static constexpr int lane = 0, lanes = 1;
  template <class T>
  HOST_DEVICE T sum(T value) const {
    return value;
  }
  template <class T>
  HOST_DEVICE T max(T value) const {
    return value;
  }
  template <class T>
  HOST_DEVICE T min(T value) const {
    return value;
  }
};

/// The least number of elements for which another thread pays.
inline constexpr std::int64_t kGrain = 16384;
/// each() cuts its elements at multiples of this number. So an element lies in a whole register, or
/// in the rest that fills none, with any number of threads. The two may use different instructions.
inline constexpr std::int64_t kCut = 64;

/// Enqueues body(i) for every i in 0 .. n-1, vectorised and in any order: no call may depend on
/// another.
template <class Body>
void each(Stream& stream, std::int64_t n, Body body) {
  static_assert(std::is_trivially_copyable_v<Body>);
#ifdef __CUDACC__
  if (CUstream_st* const cuda = stream.cuda(); cuda != nullptr) return launch(cuda, n, body);
#endif
  stream.enqueue([threads = stream.threads(), n, body] {
    const auto part = [&](std::int64_t begin, std::int64_t end) {
      const Body own = body;  // no store can change its members
      if constexpr (requires { own.idle(); }) {
        if (own.idle()) return;
      }
      const std::int64_t last = std::min(end * kCut, n);
#pragma GCC ivdep
      for (std::int64_t i = begin * kCut; i < last; ++i) own(i);
    };
    parallel_for(threads, ceil_div(n, kCut), kGrain / kCut, part);
  });
}

/// Enqueues body(row, team) for every row in 0 .. rows-1. A row has about `columns` elements of
/// work: `for (i = team.lane; i < columns; i += team.lanes)`. No row may depend on another.
template <class Body>
void each_row(Stream& stream, std::int64_t rows, std::int64_t columns, Body body) {
  static_assert(std::is_trivially_copyable_v<Body>);
#ifdef __CUDACC__
  if (CUstream_st* const cuda = stream.cuda(); cuda != nullptr) {
    return launch_rows(cuda, rows, body);
  }
#endif
#ifdef LOCKSTEP_HOST_TEAM
  if (host_team) return stream.enqueue([rows, body] { share_rows(rows, body); });
#endif
  const std::int64_t grain = kGrain / std::clamp<std::int64_t>(columns, 1, kGrain);
  stream.enqueue([threads = stream.threads(), rows, grain, body] {
    parallel_for(threads, rows, grain, [&body](std::int64_t begin, std::int64_t end) {
      const Body own = body;
      if constexpr (requires { own.idle(); }) {
        if (own.idle()) return;
      }
      for (std::int64_t row = begin; row < end; ++row) own(row, Alone{});
    });
  });
}

}  // namespace lockstep
