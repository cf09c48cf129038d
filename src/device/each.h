// Elementwise kernels, each(), and row-wise kernels, each_row(): one body serves every back end.
//
// A body is a trivially copyable struct at namespace scope. Its call operator is marked
// HOST_DEVICE. Its members are pointers and constants of the whole run; values that vary from step
// to step are read through a pointer. It calls functions that are constexpr, or templates marked
// HOST_DEVICE. Floating-point atomics are forbidden, because their sums depend on the order.
//
// A file that includes this one must not include fmt or src/base/check.h, even indirectly
// (tests/unit/floors.cc). With the CUDA back end nvcc compiles such a file, once for both back
// ends. The host's half has the same bits as g++'s.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "src/base/host_device.h"
#include "src/base/round_up.h"
#include "src/device/device.h"
#include "src/device/packs.h"
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

/// each() on cores.
template <class Body>
void each_on_host(Stream& stream, std::int64_t n, Body body) {
  stream.enqueue([threads = stream.threads(), n, body] {
    const auto part = [&](std::int64_t begin, std::int64_t end) {
      const Body own = body;  // no store can change its members
      const std::int64_t last = std::min(end * kCut, n);
      if constexpr (requires { own.unit(begin); }) {
        std::int64_t first = begin * kCut;
        // `simd` also stops g++ from unrolling a short loop before it is vectorised.
        for (; first + Body::kUnit <= last; first += Body::kUnit) {
          const auto unit = own.unit(first);
#pragma omp simd
          for (std::int64_t i = first; i < first + Body::kUnit; ++i) unit(i);
        }
        for (; first < last; ++first) own(first);
      } else {
#pragma GCC ivdep
        for (std::int64_t i = begin * kCut; i < last; ++i) own(i);
      }
    };
    parallel_for(threads, ceil_div(n, kCut), kGrain / kCut, part);
  });
}

/// Enqueues body(i) for every i in 0 .. n-1, vectorised and in any order: no call may depend on
/// another. If the body has pack(i) for Body::kWidth elements from i on, a GPU calls that while
/// bool aligned() const returns true. See map(). If it has unit(i), which returns a body for
/// Body::kUnit elements from i on, cores call that: g++ vectorises no loop that reads a number
/// through a pointer again in each turn. kUnit divides kCut.
template <class Body>
void each(Stream& stream, std::int64_t n, Body body) {
  static_assert(std::is_trivially_copyable_v<Body>);
#ifdef __CUDACC__
  if (CUstream_st* const cuda = stream.cuda(); cuda != nullptr) return launch(cuda, n, body);
#endif
  each_on_host(stream, n, body);
}

/// each_row() on cores.
template <class Body>
void each_row_on_host(Stream& stream, std::int64_t rows, std::int64_t columns, Body body) {
  const std::int64_t grain = kGrain / std::clamp<std::int64_t>(columns, 1, kGrain);
  stream.enqueue([threads = stream.threads(), rows, grain, body] {
    parallel_for(threads, rows, grain, [&body](std::int64_t begin, std::int64_t end) {
      const Body own = body;
      for (std::int64_t row = begin; row < end; ++row) own(row, Alone{});
    });
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
  each_row_on_host(stream, rows, columns, body);
}

/// A body of each_column() as one of each_row().
template <class Body>
struct OneColumn {
  Body body;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t c, Team team) const {
    body.template operator()<1>(c, std::integral_constant<int, 1>(), team);
  }
};

/// Enqueues body.operator()<kMost>(first, count, team) for columns [first, first + count), until
/// all of `columns` are computed. kMost and count are those of each_block(), and on a GPU 1. A
/// column is about `rows` elements of work, which the team shares as in each_row().
template <class Body>
void each_column(Stream& stream, std::int64_t columns, std::int64_t rows, Body body) {
#ifdef __CUDACC__
  if (stream.cuda() != nullptr) return each_row(stream, columns, rows, OneColumn<Body>{body});
#endif
#ifdef LOCKSTEP_HOST_TEAM
  if (host_team) return each_row(stream, columns, rows, OneColumn<Body>{body});
#endif
  const auto neighbours = [=](std::int64_t part, Alone team) {
    const std::int64_t first = part * kCut, left = columns - first;
    body.template operator()<kCut>(first, static_cast<int>(std::min(left, kCut)), team);
  };
  each_row_on_host(stream, ceil_div(columns, kCut), kCut * rows, neighbours);
}

/// Calls body for all columns of a block, on a core: in vector registers if they are few. More are
/// computed row by row, because memory is read fastest in its own order. Arrays of kMost numbers
/// stay in the first cache.
template <class Body>
void call_for_columns(const Body& body, std::int64_t block, std::int64_t columns) {
  constexpr int kMost = 1024;
  if (columns == 16) return body.template operator()<16>(block, 0, Fixed<16>());
  if (columns == 32) return body.template operator()<32>(block, 0, Fixed<32>());
  if (columns == 64) return body.template operator()<64>(block, 0, Fixed<64>());
  for (std::int64_t c = 0; c < columns; c += kMost) {
    const std::int64_t left = std::min<std::int64_t>(columns - c, kMost);
    body.template operator()<kMost>(block, c, static_cast<int>(left));
  }
}

/// Enqueues body.operator()<kMost>(block, first, count) for every block of rows in 0 .. blocks-1
/// and columns [first, first + count), until all of `columns` are computed. count <= kMost, which
/// is the size for arrays. No call may depend on another. `rows`: of a block, about. Read and write
/// by the functions of src/device/packs.h: on a GPU count is Body::kWidth, and a thread holds that
/// many columns in registers. If bool aligned() const returns false, or Body::kWidth does not
/// divide `columns`, it is 1.
template <class Body>
void each_block(Stream& stream, std::int64_t blocks, std::int64_t columns, std::int64_t rows,
                Body body) {
  static_assert(std::is_trivially_copyable_v<Body>);
#ifdef __CUDACC__
  if (CUstream_st* const cuda = stream.cuda(); cuda != nullptr) {
    return launch_blocks(cuda, blocks, columns, body);
  }
#endif
  const std::int64_t work = std::clamp<std::int64_t>(rows * columns, 1, kGrain);
#ifdef LOCKSTEP_HOST_TEAM
  if (host_team)
    return stream.enqueue([blocks, columns, body] { as_a_gpu(blocks, columns, body); });
#endif
  stream.enqueue([threads = stream.threads(), blocks, columns, work, body] {
    parallel_for(threads, blocks, kGrain / work, [&](std::int64_t begin, std::int64_t end) {
      const Body own = body;
      for (std::int64_t block = begin; block < end; ++block) call_for_columns(own, block, columns);
    });
  });
}

/// The body of map().
template <class F, class To, class From, std::size_t kInputs>
struct Map {
  static_assert(kInputs == 1 || kInputs == 2);
  static constexpr int kWidth = 16 / static_cast<int>(std::min(sizeof(To), sizeof(From)));
  F f;
  To* to;
  const From* from[kInputs];

  HOST_DEVICE void operator()(std::int64_t i) const {
    if constexpr (kInputs == 1) {
      to[i] = f(static_cast<float>(from[0][i]));
    } else {
      to[i] = f(static_cast<float>(from[0][i]), static_cast<float>(from[1][i]));
    }
  }
  HOST_DEVICE void pack(std::int64_t i) const {
    constexpr std::integral_constant<int, kWidth> kCount;
    const auto first = read(from[0] + i, kCount), last = read(from[kInputs - 1] + i, kCount);
    write(to + i, kCount, [&](int k) {
      if constexpr (kInputs == 1) {
        return f(first[k]);
      } else {
        return f(first[k], last[k]);
      }
    });
  }
  bool aligned() const {
    return aligned_for_packs<kWidth>(to) && aligned_for_packs<kWidth>(from[0], from[kInputs - 1]);
  }
};

/// Enqueues to[i] = f(from[i]...) for every i in 0 .. n-1, with one or two arrays `from`. f is a
/// body whose call takes and returns floats. `to` may be one of `from`.
template <class F, class To, class From, class... More>
void map(Stream& stream, std::int64_t n, F f, To* to, const From* from, const More*... more) {
  each(stream, n, Map<F, To, From, 1 + sizeof...(More)>{f, to, {from, more...}});
}

}  // namespace lockstep
