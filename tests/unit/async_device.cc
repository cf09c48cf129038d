// The double of a device keeps the contract of src/device/device.h and detects violations: work
// that runs later, events, closed memory, and graphs that repeat their work.
#include "tests/support/async_device.h"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

#include "tests/support/error_of.h"

namespace lockstep {
namespace {

/// Work that waits until the host opens the gate.
class Gate {
 public:
  explicit Gate(Stream& stream) {
    stream.enqueue([this] {
      while (!open_) std::this_thread::yield();
    });
  }
  void open() { open_ = true; }

 private:
  std::atomic<bool> open_ = false;
};

TEST(AsyncDevice, WorkRunsLaterAndInOrder) {
  const auto device = make_async_device();
  const auto stream = device->stream();
  EXPECT_EQ(stream->threads(), 1);
  EXPECT_FALSE(device->traits().memory_is_host);
  EXPECT_GT(device->traits().run_ahead, 0);
  std::vector<int> order;
  Gate gate(*stream);
  for (int i = 0; i < 20; ++i) stream->enqueue([&order, i] { order.push_back(i); });
  EXPECT_TRUE(order.empty());
  gate.open();
  stream->synchronize();
  EXPECT_EQ(order.size(), 20u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(AsyncDevice, AnEventIsDoneWhenItsStreamReachesIt) {
  const auto device = make_async_device();
  const auto one = device->stream(), other = device->stream();
  const auto event = device->event();
  EXPECT_TRUE(event->done()) << "nothing was recorded";
  event->wait(*other);
  other->synchronize();

  Gate gate(*one);
  std::atomic<int> done = 0;
  one->enqueue([&] { done = 1; });
  event->record(*one);
  EXPECT_FALSE(event->done());
  event->wait(*other);
  int seen = -1;
  other->enqueue([&] { seen = done; });
  gate.open();
  other->synchronize();
  EXPECT_EQ(seen, 1);
  EXPECT_TRUE(event->done());
}

TEST(AsyncDevice, ErrorsAppearWhenTheHostWaits) {
  const auto device = make_async_device();
  const auto stream = device->stream();
  stream->enqueue([] { expect(false, "a kernel failed"); });
  EXPECT_TRUE(mentions(error_of([&] { stream->synchronize(); }), {"a kernel failed"}));
}

TEST(AsyncDevice, MemoryOfTheDeviceIsClosedToTheHost) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "skipped: the guard's lock would hide races";
#endif
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto device = make_async_device();
  const auto stream = device->stream();
  const Memory memory = device->allocate(10000, Place::device),
               host = device->allocate(10000, Place::host);
  stream->enqueue([&] { memory[9999] = std::byte{5}; });
  device->copy(*stream, host.get(), memory.get(), 10000);
  stream->synchronize();
  EXPECT_EQ(host[9999], std::byte{5});
  EXPECT_EQ(host[9998], std::byte{0}) << "memory is zeroed";
  volatile std::byte* place = memory.get();
  // By SIGSEGV, or by a sanitizer's exit code.
  EXPECT_DEATH(static_cast<void>(*place), "");
  EXPECT_DEATH(*place = std::byte{1}, "");
}

TEST(Graph, CaptureRunsNothingAndKeepsForksAndJoins) {
  const auto device = make_async_device();
  const auto main = device->stream(), side = device->stream();
  const auto fork = device->event(), join = device->event();
  int value = 0, seen = 0;
  const auto graph = device->capture(*main, [&] {
    main->enqueue([&] { value += 1; });
    fork->record(*main);
    fork->wait(*side);
    side->enqueue([&] { value *= 10; });
    join->record(*side);
    join->wait(*main);
    main->enqueue([&] { seen = value; });
  });
  main->synchronize();
  side->synchronize();
  EXPECT_EQ(value, 0);
  for (const int expected : {10, 110, 1110}) {
    graph->launch(*main);
    main->synchronize();
    EXPECT_EQ(seen, expected);
  }
}

}  // namespace
}  // namespace lockstep
