// A warp made of threads: each_row() shares every row between 32 of them, as it does on a GPU, for
// ThreadSanitizer and for whoever compares with Alone. What lanes tell each other goes through
// mailboxes of relaxed atomics, which order nothing else: as on a GPU, where a shuffle is no fence,
// a lane that reads what another has written to memory is a race.
//
// src/device/each.h includes this where LOCKSTEP_HOST_TEAM names it: in the library of tests/tsan.
#pragma once

#include <sched.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <thread>
#include <type_traits>
#include <vector>

namespace lockstep {

/// Whether each_row() of this thread uses a team; else each row has one thread alone.
inline thread_local bool host_team = false;

/// The mailbox of a lane. A word is a round and half of a value; two sets, by the round's parity,
/// are enough: who writes round r + 2 has read all of r + 1, which nobody writes before it has read
/// all of r.
struct Mailbox {
  std::array<std::array<std::atomic<std::uint64_t>, 2>, 2> words{};
};

/// One of the 32 that share a row. All come to every sum(), max() and min(), or the test ends.
struct HostLane {
  static constexpr int lanes = 32;
  int lane;
  std::array<Mailbox, lanes>* mailboxes;
  std::uint32_t* round;

  template <class T>
  T sum(T value) const {
    return butterfly(value, [](T a, T b) { return a + b; });
  }
  template <class T>
  T max(T value) const {
    return butterfly(value, [](T a, T b) { return b > a ? b : a; });
  }
  template <class T>
  T min(T value) const {
    return butterfly(value, [](T a, T b) { return b < a ? b : a; });
  }

 private:
  /// Each exchange of the warp's: with the lane at distance 16, 8, 4, 2 and 1.
  template <class T, class Join>
  T butterfly(T value, Join join) const {
    for (int distance = lanes / 2; distance > 0; distance /= 2) {
      value = join(value, exchange(value, lane ^ distance));
    }
    return value;
  }

  /// Tells all lanes `value`, waits until all have told theirs, and returns that of `other`.
  template <class T>
  T exchange(T value, int other) const {
    static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
    const std::uint32_t now = ++*round;
    std::array<std::uint32_t, 2> halves{};
    std::memcpy(halves.data(), &value, sizeof value);
    for (std::size_t half = 0; half < 2; ++half) {
      (*mailboxes)[lane].words[now % 2][half].store(std::uint64_t{now} << 32 | halves[half],
                                                    std::memory_order_relaxed);
    }
    T result{};
    for (int from = 0; from < lanes; ++from) {
      for (std::size_t half = 0; half < 2; ++half) halves[half] = read(from, half, now);
      if (from == other) std::memcpy(&result, halves.data(), sizeof result);
    }
    return result;
  }

  std::uint32_t read(int from, std::size_t half, std::uint32_t now) const {
    const auto& word = (*mailboxes)[from].words[now % 2][half];
    const auto began = std::chrono::steady_clock::now();
    for (;;) {
      const std::uint64_t found = word.load(std::memory_order_relaxed);
      if (found >> 32 == now) return static_cast<std::uint32_t>(found);
      sched_yield();
      if (std::chrono::steady_clock::now() - began > std::chrono::seconds(60)) {
        std::fprintf(stderr, "lane %d waits for lane %d, which does not come to exchange %u\n",
                     lane, from, now);
        std::abort();
      }
    }
  }
};

/// body(row, lane) for every row by all lanes, which nothing orders but what they tell each other.
template <class Body>
void share_rows(std::int64_t rows, const Body& body) {
  std::array<Mailbox, HostLane::lanes> mailboxes;
  std::array<std::uint32_t, HostLane::lanes> rounds{};
  std::vector<std::thread> threads;
  for (int lane = 0; lane < HostLane::lanes; ++lane) {
    threads.emplace_back([&, lane] {
      const HostLane own{lane, &mailboxes, &rounds[lane]};
      for (std::int64_t row = 0; row < rows; ++row) body(row, own);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::uint32_t round : rounds) {
    if (round == rounds[0]) continue;
    std::fprintf(stderr, "some lanes came to %u exchanges, others to %u\n", round, rounds[0]);
    std::abort();
  }
}

/// The calls of each_block() on a GPU, one after another: no two of them share anything.
template <class Body>
void as_a_gpu(std::int64_t blocks, std::int64_t columns, const Body& body) {
  const auto call_all = [&]<int kWidth>(std::integral_constant<int, kWidth> count) {
    for (std::int64_t block = 0; block < blocks; ++block) {
      for (std::int64_t c = 0; c < columns; c += kWidth)
        body.template operator()<kWidth>(block, c, count);
    }
  };
  if (columns % Body::kWidth == 0 && body.aligned()) {
    call_all(std::integral_constant<int, Body::kWidth>());
  } else {
    call_all(std::integral_constant<int, 1>());
  }
}

}  // namespace lockstep
