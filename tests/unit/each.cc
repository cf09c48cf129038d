// Streams, each() and each_row() on the CPU: every element once, with any number of threads, in
// order; functions that kernels may call; and memory of the host.
#include "src/device/each.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "src/base/machine.h"
#include "src/base/random.h"
#include "src/device/devices.h"
#include "src/device/host.h"
#include "tests/support/error_of.h"

namespace lockstep {
namespace {

struct CountUp {
  int* counts;
  HOST_DEVICE void operator()(std::int64_t i) const { counts[i] += 1; }
};

/// Adds up a row of a matrix, and all of its elements.
struct SumRow {
  const std::int64_t* matrix;
  std::int64_t columns;
  std::int64_t *sums, *total;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    std::int64_t sum = 0;
    for (std::int64_t c = team.lane; c < columns; c += team.lanes) sum += matrix[row * columns + c];
    sum = team.sum(sum);
    if (team.lane != 0) return;
    sums[row] = sum;
    add_atomically(*total, sum);
  }
};

/// The same with a number for each unit of four elements.
struct CountUnits {
  static constexpr std::int64_t kUnit = 4;
  int *counts, *units;
  struct Unit {
    int *counts, *units;
    std::int64_t number;
    HOST_DEVICE void operator()(std::int64_t i) const {
      counts[i] += 1;
      units[i] = static_cast<int>(number);
    }
  };
  HOST_DEVICE Unit unit(std::int64_t i) const { return {counts, units, i / kUnit}; }
  HOST_DEVICE void operator()(std::int64_t i) const { unit(i)(i); }
};

TEST(Each, ProcessesEveryElementOnce) {
  for (const int threads : {1, 2, 3}) {
    const auto device = make_cpu_device(threads);
    const auto stream = device->stream();
    for (const std::int64_t n : {0, 1, 1000, 16384, 16385, 100000}) {
      std::vector<int> counts(n);
      each(*stream, n, CountUp{counts.data()});
      EXPECT_EQ(counts, std::vector<int>(counts.size(), 1)) << threads << " threads, " << n;
    }
    for (const std::int64_t n : {0, 3, 16385, 100002}) {
      std::vector<int> counts(n + 3), units(n + 3, -1);
      each(*stream, n, CountUnits{counts.data(), units.data()});
      for (std::int64_t i = 0; i < n + 3; ++i) {
        EXPECT_EQ(counts[i], i < n ? 1 : 0) << threads << " threads, " << n;
        EXPECT_EQ(units[i], i < n ? i / 4 : -1) << threads << " threads, " << n;
      }
    }
  }
}

/// Notes the thread of each element.
struct NoteThread {
  std::thread::id* by;
  HOST_DEVICE void operator()(std::int64_t i) const {
#ifndef __CUDA_ARCH__
    by[i] = std::this_thread::get_id();
#endif
  }
};

TEST(Each, CutsAtWholeRegisters) {
  const auto device = make_cpu_device(3);
  const auto stream = device->stream();
  std::vector<std::thread::id> by(100003);
  each(*stream, std::ssize(by), NoteThread{by.data()});
  int cuts = 0;
  for (std::size_t i = 1; i < by.size(); ++i) {
    if (by[i] == by[i - 1]) continue;
    ++cuts;
    EXPECT_EQ(i % kCut, 0);
  }
  EXPECT_EQ(cuts, 2);
}

TEST(EachRow, SumsDoNotDependOnThreads) {
  for (const std::int64_t columns : {1, 7, 20000}) {
    const std::int64_t rows = 70000 / columns;
    std::vector<std::int64_t> matrix(rows * columns);
    std::iota(matrix.begin(), matrix.end(), 1);
    for (const int threads : {1, 2, 3}) {
      const auto device = make_cpu_device(threads);
      const auto stream = device->stream();
      std::vector<std::int64_t> sums(rows);
      std::int64_t total = 0;
      each_row(*stream, rows, columns, SumRow{matrix.data(), columns, sums.data(), &total});
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t first = row * columns + 1, last = (row + 1) * columns;
        ASSERT_EQ(sums[row], (first + last) * columns / 2);
      }
      const std::int64_t n = rows * columns;
      EXPECT_EQ(total, n * (n + 1) / 2);
    }
  }
}

TEST(HostStream, WorkRunsAtOnce) {
  HostStream stream;
  int done = 0;
  stream.enqueue([&] { done = 1; });
  EXPECT_EQ(done, 1);
}

TEST(HostStream, TheTeamBelongsToTheThreadThatMadeIt) {
  // A second team, of the communication thread, would slow down the backward pass.
  HostStream stream(3);
  EXPECT_EQ(stream.threads(), 3);
  int elsewhere = 0;
  std::thread([&] { elsewhere = stream.threads(); }).join();
  EXPECT_EQ(elsewhere, 1);
}

TEST(CpuDevice, RunsEverythingAtOnce) {
  const auto device = make_cpu_device(1);
  EXPECT_TRUE(device->traits().memory_is_host);
  EXPECT_EQ(device->traits().run_ahead, 0);
  const auto stream = device->stream();
  const auto event = device->event();
  EXPECT_TRUE(event->done());
  event->record(*stream);
  event->wait(*stream);
  EXPECT_TRUE(event->done());
  const Memory from = device->allocate(3, Place::host), to = device->allocate(3, Place::device);
  from[2] = std::byte{7};
  device->copy(*stream, to.get(), from.get(), 3);
  EXPECT_EQ(to[2], std::byte{7});
  bool called = false;
  EXPECT_EQ(device->capture(*stream, [&] { called = true; }), nullptr);
  EXPECT_FALSE(called) << "work that is not captured must not run twice";
}

// Ranks of a host that allocate at the same time.
constexpr std::size_t kBytes = 1 << 20;

TEST(HostMemory, WaitsForRanksThatTouchTheRest) {
  std::atomic<std::uint64_t> claims = std::uint64_t{1} << 60;  // of others: all that there is
  share_memory_claims(&claims);
  HostDevice device;
  std::atomic<bool> done = false;
  std::jthread rank([&] {
    EXPECT_NE(device.allocate(kBytes, Place::host), nullptr);
    done = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(done);
  claims = 0;
  rank.join();
  EXPECT_EQ(claims, 0u) << "its own claim ended";
  share_memory_claims(nullptr);
}

TEST(HostMemory, FailsWithNumbersIfNoOtherRankAllocates) {
  std::atomic<std::uint64_t> claims = 0;
  share_memory_claims(&claims);
  HostDevice device;
  const std::string error =
      error_of([&] { device.allocate(available_memory_bytes() + (kBytes << 10), Place::host); });
  EXPECT_TRUE(mentions(error, {"out of memory", "MiB", host_name(), "--batch", "ranks"}));
  EXPECT_EQ(claims, 0u);
  EXPECT_NE(device.allocate(kBytes, Place::host), nullptr);
  share_memory_claims(nullptr);
}

TEST(Devices, AreARegistryWithTheBestLast) {
  ASSERT_GE(devices().size(), 2u);
  EXPECT_EQ(devices().front().name, "auto");
  for (const DeviceEntry& entry : devices().subspan(1)) {
    if (!entry.absent().empty()) continue;
    EXPECT_EQ(entry.make({.threads = 1})->traits().description.rfind(entry.name, 0), 0u)
        << entry.name << ": its description begins with its name";
  }
}

// Kernels may call these functions. They are constexpr, so they call no host function.
static_assert(static_cast<float>(Bfloat16(1.00390625f)) == 1.0f);
static_assert(philox({0, 0, 0, 0}, {0, 0})[0] == 0x6627e8d5);
static_assert([] {
  Random random(1, Purpose::dropout, 2, 3);
  return random.uniform() < 1 && random.below(5) < 5;
}());

}  // namespace
}  // namespace lockstep
