// One body for every back end, in two shapes of work: each() over elements, each_row() over rows.
//
// A body is a struct at namespace scope, trivially copyable, with a call operator marked
// HOST_DEVICE; its members are pointers and constants of the whole run, and what varies from step
// to step is read through a pointer. Functions that it calls are constexpr, or HOST_DEVICE if they
// are templates. A body may also have bool idle() const: where that is true when its work comes to
// be done, there is none. No atomics on floating-point numbers: their sums would depend on
// the order.
//
// A file that includes this one includes neither fmt nor src/base/check.h, by whatever way: a
// compiler of kernels reads it too (tests/unit/floors.cc). With the CUDA back end, nvcc compiles
// it, once for both back ends; what it makes of the host's half has the bits of g++'s.
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
#include LOCKSTEP_HOST_TEAM  // of tests: rows that threads share as a warp does
#endif

namespace lockstep {

/// total += value, whoever else adds to it. Of integers, so that the order does not matter.
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

/// Who works on a row together: `lanes` of them, of which the caller is number `lane`; each takes
/// every lanes-th element, and sum(), max() and min() join what they found. A CPU thread is alone;
/// on a GPU a warp shares the row (src/device/cuda/kernels.h).
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

/// Elements of work that a thread is worth starting for.
inline constexpr std::int64_t kGrain = 16384;
/// Where each() cuts: an element is in a whole register, or among the last few that fill none,
/// whatever the number of threads, for the two may be computed by other instructions.
inline constexpr std::int64_t kCut = 64;

/// Gives body(i) for every i in 0 .. n-1, in no promised order, vectorised: no call may depend on
/// another.
template <class Body>
void each(Stream& stream, std::int64_t n, Body body) {
  static_assert(std::is_trivially_copyable_v<Body>);
#ifdef __CUDACC__
  if (CUstream_st* const cuda = stream.cuda(); cuda != nullptr) return launch(cuda, n, body);
#endif
  stream.give([threads = stream.threads(), n, body] {
    const auto part = [&](std::int64_t begin, std::int64_t end) {
      const Body own = body;  // whose members no store can change
      if constexpr (requires { own.idle(); }) {
        if (own.idle()) return;
      }
      const std::int64_t behind = std::min(end * kCut, n);
#pragma GCC ivdep
      for (std::int64_t i = begin * kCut; i < behind; ++i) own(i);
    };
    parallel_for(threads, ceil_div(n, kCut), kGrain / kCut, part);
  });
}

/// Gives body(row, team) for every row in 0 .. rows-1, which has about `columns` elements of work:
/// `for (i = team.lane; i < columns; i += team.lanes)`. No row may depend on another.
template <class Body>
void each_row(Stream& stream, std::int64_t rows, std::int64_t columns, Body body) {
  static_assert(std::is_trivially_copyable_v<Body>);
#ifdef __CUDACC__
  if (CUstream_st* const cuda = stream.cuda(); cuda != nullptr) {
    return launch_rows(cuda, rows, body);
  }
#endif
#ifdef LOCKSTEP_HOST_TEAM
  if (host_team) return stream.give([rows, body] { share_rows(rows, body); });
#endif
  const std::int64_t grain = kGrain / std::clamp<std::int64_t>(columns, 1, kGrain);
  stream.give([threads = stream.threads(), rows, grain, body] {
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
