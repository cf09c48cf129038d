// Work that is done later must own all that it names: what it finds gone, AddressSanitizer reports.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "tests/support/async_device.h"

namespace lockstep {
namespace {

std::atomic<int> sum = 0;

/// Gives work on a vector that is gone when this returns.
void give_local(Stream& stream, bool owned) {
  const std::vector<int> values{1, 2, 3};
  if (owned) {
    stream.give([values] { sum = values[0] + values[2]; });
  } else {
    stream.give([&] { sum = values[0] + values[2]; });
  }
}

/// The work begins after its giver has returned.
void run(bool owned) {
  std::atomic<bool> returned = false;
  const auto device = make_async_device();
  const auto stream = device->stream();
  stream->give([&] {
    while (!returned) std::this_thread::yield();
  });
  give_local(*stream, owned);
  returned = true;
  stream->synchronize();
}

[[noreturn]] void run_and_exit(bool owned) {
  run(owned);
  std::exit(0);
}

TEST(Lifetime, WorkThatOwnsWhatItNamesFindsIt) {
  run(true);
  EXPECT_EQ(sum, 4);
}

TEST(Lifetime, WorkThatNamesAnothersLocalIsCaught) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(run_and_exit(false), testing::ExitedWithCode(1), "AddressSanitizer: .*use-after");
}

}  // namespace
}  // namespace lockstep
