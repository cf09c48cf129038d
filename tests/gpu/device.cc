// Memory, order and kernels on a GPU: the promises of src/device/device.h, and the results of
// each() and each_row() against the CPU's.
#include "src/device/device.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "src/base/random.h"
#include "src/device/cuda/device.h"
#include "src/device/each.h"
#include "tests/support/device_array.h"
#include "tests/support/error_of.h"

namespace lockstep {
namespace {

struct CountUp {
  std::int32_t* counts;
  HOST_DEVICE void operator()(std::int64_t i) const { counts[i] += 1; }
};

/// Philox numbers, which are integers and must be the same everywhere.
struct Draw {
  std::uint32_t* to;
  HOST_DEVICE void operator()(std::int64_t i) const {
    Random random(42, Purpose::dropout, 7, static_cast<std::uint32_t>(i));
    random.next();
    to[i] = random.next() ^ random.below(1000);
  }
};

struct Row {
  std::int64_t sum, highest, lowest;
  bool operator==(const Row&) const = default;
};

struct SumRow {
  const std::int64_t* matrix;
  std::int64_t columns;
  Row* rows;
  std::int64_t* total;
  std::uint32_t* count;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    std::int64_t sum = 0, highest = matrix[row * columns], lowest = highest;
    for (std::int64_t c = team.lane; c < columns; c += team.lanes) {
      const std::int64_t value = matrix[row * columns + c];
      sum += value;
      highest = value > highest ? value : highest;
      lowest = value < lowest ? value : lowest;
    }
    sum = team.sum(sum);
    highest = team.max(highest);
    lowest = team.min(lowest);
    if (team.lane != 0) return;
    rows[row] = {sum, highest, lowest};
    add_atomically(*total, sum);
    add_atomically(*count, 1);
  }
};

class Gpu : public testing::Test {
 protected:
  std::unique_ptr<Device> device_ = make_cuda_device({.threads = 1});
  std::unique_ptr<Stream> stream_ = device_->stream();
};

TEST_F(Gpu, HasANameAndKeepsItsMemoryToItself) {
  EXPECT_EQ(device_->traits().description.rfind("cuda:", 0), 0u) << device_->traits().description;
  EXPECT_FALSE(device_->traits().uuid.empty());
  EXPECT_FALSE(device_->traits().libraries.empty());
  EXPECT_FALSE(device_->traits().memory_is_host);
  RecordProperty("device", device_->traits().description + ", " + device_->traits().uuid);
  RecordProperty("libraries", device_->traits().libraries);
}

TEST_F(Gpu, MemoryIsZeroedAndAligned) {
  for (const Place place : {Place::device, Place::host}) {
    for (const std::size_t bytes : {1, 4095, 5000000}) {
      const Memory memory = device_->allocate(bytes, place);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % 4096, 0u);
      const auto count = static_cast<std::int64_t>(bytes);
      EXPECT_EQ(read_array<std::uint8_t>(*device_, *stream_, memory.get(), count),
                std::vector<std::uint8_t>(bytes));
    }
  }
}

TEST_F(Gpu, DoesEveryElementOnce) {
  for (const std::int64_t n : {0, 1, 255, 256, 257, 100000, 300000000}) {
    const Memory counts = device_->allocate(static_cast<std::size_t>(n) * 4, Place::device);
    each(*stream_, n, CountUp{reinterpret_cast<std::int32_t*>(counts.get())});
    std::vector<std::int32_t> result(n);
    device_->copy(*stream_, result.data(), counts.get(), result.size() * 4);
    stream_->synchronize();
    EXPECT_EQ(std::accumulate(result.begin(), result.end(), std::int64_t{0}), n);
    EXPECT_TRUE(n == 0 || (result.front() == 1 && result.back() == 1));
  }
}

TEST_F(Gpu, DrawsTheCpusNumbers) {
  constexpr std::int64_t kCount = 100000;
  std::vector<std::uint32_t> wanted(kCount);
  HostStream host;
  each(host, kCount, Draw{wanted.data()});
  const DeviceArray<std::uint32_t> numbers(*device_, *stream_, std::vector<std::uint32_t>(kCount));
  each(*stream_, kCount, Draw{numbers.data()});
  EXPECT_EQ(numbers.values(), wanted);
}

TEST_F(Gpu, RowsAreSharedByAWarp) {
  for (const std::int64_t columns : {1, 7, 32, 33, 1000}) {
    constexpr std::int64_t kRows = 1003;
    std::vector<std::int64_t> matrix(kRows * columns);
    Random random(1, Purpose::generate, 0, 0);
    for (auto& value : matrix) value = static_cast<std::int64_t>(random.next()) - (1ll << 31);
    std::vector<Row> wanted(kRows);
    std::int64_t total = 0;
    std::uint32_t count = 0;
    HostStream host;
    each_row(host, kRows, columns, SumRow{matrix.data(), columns, wanted.data(), &total, &count});
    const DeviceArray<std::int64_t> on_gpu(*device_, *stream_, matrix),
        sum(*device_, *stream_, {0});
    const DeviceArray<Row> rows(*device_, *stream_, std::vector<Row>(kRows));
    const DeviceArray<std::uint32_t> counted(*device_, *stream_, {0});
    each_row(*stream_, kRows, columns,
             SumRow{on_gpu.data(), columns, rows.data(), sum.data(), counted.data()});
    EXPECT_EQ(rows.values(), wanted) << columns;
    EXPECT_EQ(sum.values()[0], total);
    EXPECT_EQ(counted.values()[0], count);
  }
}

/// Slow enough that work which does not wait for it would run too early.
struct Slow {
  std::int32_t* to;
  HOST_DEVICE void operator()(std::int64_t) const {
    std::uint32_t mix = 1;
    for (int i = 0; i < 20000000; ++i) mix = mix * 1664525 + 1013904223;
    *to = mix == 0 ? 2 : 1;
  }
};
struct Copy {
  const std::int32_t* from;
  std::int32_t* to;
  HOST_DEVICE void operator()(std::int64_t) const { *to = *from; }
};

TEST_F(Gpu, EventsOrderStreams) {
  const std::unique_ptr<Stream> other = device_->stream();
  const std::unique_ptr<Event> event = device_->event();
  EXPECT_TRUE(event->done()) << "nothing was recorded";
  const DeviceArray<std::int32_t> first(*device_, *stream_, {0}), second(*device_, *stream_, {0});
  each(*stream_, 1, Slow{first.data()});
  event->record(*stream_);
  EXPECT_FALSE(event->done()) << "enqueued, not done";
  event->wait(*other);
  each(*other, 1, Copy{first.data(), second.data()});
  other->synchronize();
  EXPECT_TRUE(event->done());
  EXPECT_EQ(second.values()[0], 1);
}

TEST_F(Gpu, AGraphRepeatsItsForks) {
  const std::unique_ptr<Stream> other = device_->stream();
  const std::unique_ptr<Event> fork = device_->event(), join = device_->event();
  const DeviceArray<std::int32_t> mine(*device_, *stream_, {0, 0}), theirs(*device_, *stream_, {0});
  const auto body = [&] {
    each(*stream_, 2, CountUp{mine.data()});
    fork->record(*stream_);
    fork->wait(*other);
    each(*other, 1, CountUp{theirs.data()});
    join->record(*other);
    join->wait(*stream_);
  };
  const std::unique_ptr<Graph> graph = device_->capture(*stream_, body);
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(mine.values()[0], 0) << "captured work does not run";
  for (int i = 0; i < 5; ++i) graph->launch(*stream_);
  EXPECT_EQ(mine.values(), (std::vector<std::int32_t>{5, 5}));
  EXPECT_EQ(theirs.values()[0], 5);
}

TEST_F(Gpu, ErrorsAreReportedOnce) {
  const std::string error =
      error_of([&] { device_->allocate(std::size_t{1} << 50, Place::device); });
  EXPECT_TRUE(error.starts_with("out of GPU memory: ")) << error;
  each(*stream_, 1,
       Slow{reinterpret_cast<std::int32_t*>(device_->allocate(4, Place::device).release())});
  EXPECT_NO_THROW(stream_->synchronize()) << "the error was reported once";
  EXPECT_THROW(stream_->enqueue([] {}), Error) << "a GPU runs no host code";
}

}  // namespace
}  // namespace lockstep
