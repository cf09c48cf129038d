// Neighbours in memory, read and written by kernels in accesses of up to 16 bytes.
//
// `Count` is int or Fixed on the CPU, whose compiler vectorises plain loops. In a kernel it is a
// std::integral_constant: a thread holds that many values in registers.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "src/base/host_device.h"
#include "src/base/view.h"

namespace lockstep {

/// kCount elements, aligned as one access of the device: to their size, or to 16 bytes.
template <class T, int kCount>
struct Pack {
  static constexpr std::size_t kBytes = kCount * sizeof(T);
  static constexpr std::size_t kAlignment = kBytes % 16 == 0             ? 16
                                            : kBytes == 8 || kBytes == 4 ? kBytes
                                                                         : alignof(T);
  using Values = std::array<T, kCount>;

  HOST_DEVICE static Values load(const T* from) {
    if constexpr (kAlignment > sizeof(T)) {
      return std::bit_cast<Values>(*reinterpret_cast<const Words*>(from));
    } else {
      Values values;
      for (int k = 0; k < kCount; ++k) values[k] = from[k];
      return values;
    }
  }
  HOST_DEVICE static void store(const Values& values, T* to) {
    if constexpr (kAlignment > sizeof(T)) {
      *reinterpret_cast<Words*>(to) = std::bit_cast<Words>(values);
    } else {
      for (int k = 0; k < kCount; ++k) to[k] = values[k];
    }
  }

 private:
  struct [[gnu::may_alias]] alignas(kAlignment) Words {
    std::uint32_t words[std::max<std::size_t>(kBytes / 4, 1)];
  };
};

/// Whether packs of kCount may lie at all of these addresses.
template <int kCount, class... T>
bool aligned_for_packs(const T*... at) {
  return ((reinterpret_cast<std::uintptr_t>(at) % Pack<T, kCount>::kAlignment == 0) && ...);
}

/// A count that the CPU's compiler knows.
template <int kCount>
struct Fixed {
  constexpr operator int() const { return kCount; }  // NOLINT: it stands for the number
};
template <class Count>
inline constexpr bool kInRegisters = false;
template <int kCount>
inline constexpr bool kInRegisters<std::integral_constant<int, kCount>> = true;

/// Values that are read where they are used.
template <class T>
struct InMemory {
  const T* at;
  HOST_DEVICE float operator[](int k) const { return at[k]; }
};

/// Values in registers.
template <class T, int kCount>
struct InRegisters {
  typename Pack<T, kCount>::Values values;
  HOST_DEVICE float operator[](int k) const { return values[k]; }
};

/// `count` values from `from` on.
template <class T>
HOST_DEVICE InMemory<T> read(const T* from, int /*count*/) {
  return {from};
}
template <class T, int kCount>
HOST_DEVICE InRegisters<T, kCount> read(const T* from, std::integral_constant<int, kCount>) {
  return {Pack<T, kCount>::load(from)};
}

/// Calls f(k) for each k below `count`. No call may depend on another.
template <class Count, class F>
HOST_DEVICE void for_columns(Count count, F f) {
  if constexpr (std::is_same_v<Count, int>) {
#pragma GCC ivdep
    for (int k = 0; k < count; ++k) f(k);
  } else {
#ifndef __CUDA_ARCH__  // GCC 14 unrolls the loop before it could become a vector loop
#pragma omp simd
#endif
    for (int k = 0; k < count; ++k) f(k);
  }
}

/// to[k] = value(k) for each k below `count`.
template <class T, class Value>
HOST_DEVICE void write(T* to, int count, Value value) {
  for_columns(count, [&](int k) { to[k] = value(k); });
}
template <class T, int kCount, class Value>
HOST_DEVICE void write(T* to, std::integral_constant<int, kCount>, Value value) {
  typename Pack<T, kCount>::Values values;
  for (int k = 0; k < kCount; ++k) values[k] = value(k);
  Pack<T, kCount>::store(values, to);
}

/// Calls use(row, load(row)) for the rows from `begin` up to `end`, in order. In a kernel the loads
/// of kAtOnce rows are under way together, also if use() writes.
template <int kAtOnce, class Count, class Load, class Use>
HOST_DEVICE void for_rows(std::int64_t begin, std::int64_t end, Count, Load load, Use use) {
  std::int64_t row = begin;
  if constexpr (kInRegisters<Count>) {
    for (; row + kAtOnce <= end; row += kAtOnce) {
      decltype(load(row)) loaded[kAtOnce];
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
      for (int i = 0; i < kAtOnce; ++i) loaded[i] = load(row + i);
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
      for (int i = 0; i < kAtOnce; ++i) use(row + i, loaded[i]);
    }
  }
  for (; row < end; ++row) use(row, load(row));
}

}  // namespace lockstep
