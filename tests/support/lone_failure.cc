// One rank throws, by itself, while the others wait for it; or each does (RANK -1), without having
// agreed. For tests/apps/lone_failure.sh.
// usage: lone_failure RANK PLACE [OPTION_OF_TRAIN_CIFAR...]
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

#include "apps/run/training_program.h"
#include "apps/run/trainer.h"
#include "collectives/buckets.h"
#include "collectives/comm/flight_recorder.h"

namespace lockstep {
namespace {

[[noreturn]] void throw_as(const std::string& place) {
  if (place == "memory") throw std::bad_alloc();
  if (place == "foreign") throw std::out_of_range("far out");
  throw Error("broken at " + place, 3);
}

/// What the product asks each rank between the phases of start-up and at every step, throwing.
int fail_in_training(World& world, int argc, char** argv, int rank, const std::string& place) {
  std::string text;
  const auto options = parse_options(argc, argv, {"lone_failure"}, text);
  const int failing_call = place == "start-up" ? 2 : 12;
  int calls = 0;
  return train(world, *options, [&]() -> bool {
    if (++calls == failing_call && (rank < 0 || world.comm().rank() == rank)) throw_as(place);
    return false;
  });
}

/// Says so if it goes before the end of the run: by then others may wait for ever.
struct Witness {
  ~Witness() { std::fputs("unwound\n", stderr); }
};

/// In the callback of a bucket, on the computing thread or on that of the policy.
int fail_in_a_bucket(World& world, int rank, const std::string& place) {
  const Witness witness;
  const Comm comm = world.comm().duplicate();
  const auto device = make_cpu_device(1);
  HostStream stream;
  constexpr std::int64_t kCount = 1 << 20;
  const std::vector<Range> ranges = {{0, kCount / 2}, {kCount / 2, kCount / 2}};
  const auto reducer = make_reducer("tree", {comm, *device, kCount, ranges, {}});
  const bool elsewhere = place == "thread";
  std::atomic<int> called = 0;
  GradientBuckets buckets(
      *reducer, ranges, elsewhere ? Policy::thread : Policy::poll,
      [&](int, Range) {
        if (++called == 5 && (rank < 0 || comm.rank() == rank)) throw_as(place);
      },
      &world.flight_recorder().mine());
  return world.abort_all_on_error([&] {
    for (int step = 0, given = 0; step < 1000; ++step) {
      for (const Range& range : ranges) {
        buckets.ready(range, stream);
        ++given;
        if (!elsewhere) buckets.advance();
        // (The 5th throws, and who is not told so at once is told by finish().)
        while (elsewhere && called < std::min(given, 5)) std::this_thread::yield();
      }
      buckets.finish();
    }
    return static_cast<int>(kExitSuccess);
  });
}

/// All leave in order, but one never arrives at the end.
[[noreturn]] void stop_on_the_way_out(World& world, int rank) {
  if (world.comm().rank() == rank) std::raise(SIGSTOP);
  throw AgreedError("all is over");
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  return run_main(argc, argv, "lone_failure", [&](World& world) {
    const int rank = std::atoi(argv[1]);
    const std::string place = argv[2];
    if (place == "poll" || place == "thread") return fail_in_a_bucket(world, rank, place);
    if (place == "exit") stop_on_the_way_out(world, rank);
    return fail_in_training(world, argc - 2, argv + 2, rank, place);
  });
}
