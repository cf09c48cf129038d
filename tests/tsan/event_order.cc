// The order of events of a training step, without what it computes: gradients are written on one
// stream, and summed and applied on another. Kept, there is no race; every rule that is broken is
// one that ThreadSanitizer reports.
#include <gtest/gtest.h>

#include <cstdlib>

#include "src/device/each.h"
#include "tests/support/async_device.h"

namespace lockstep {
namespace {

/// What of the order is kept.
struct Order {
  bool waits_for_ready = true;  ///< the sum of a bucket, for its gradients
  bool joins = true;            ///< the next step, for the updates of this one
};

constexpr std::int64_t kCount = 1000;
constexpr int kBuckets = 3, kSteps = 4;

struct Backward {
  const float* parameters;
  float* gradients;
  HOST_DEVICE void operator()(std::int64_t i) const { gradients[i] = 0.5f * parameters[i] + 1; }
};

struct Update {
  float* parameters;
  const float* gradients;
  HOST_DEVICE void operator()(std::int64_t i) const { parameters[i] -= 0.1f * gradients[i]; }
};

/// Returns the first weight after kSteps steps.
float train(const Order& order, std::uint64_t seed) {
  const auto device = make_async_device({.seed = seed});
  const auto compute = device->stream(), updates = device->stream();
  const std::size_t bytes = kBuckets * kCount * sizeof(float);
  const Memory parameter_memory = device->allocate(bytes, Place::device),
               gradient_memory = device->allocate(bytes, Place::device),
               answer = device->allocate(sizeof(float), Place::host);
  auto* parameters = reinterpret_cast<float*>(parameter_memory.get());
  auto* gradients = reinterpret_cast<float*>(gradient_memory.get());
  std::unique_ptr<Event> ready[kBuckets];
  for (auto& event : ready) event = device->event();
  const auto updated = device->event();
  for (int step = 0; step < kSteps; ++step) {
    for (int bucket = 0; bucket < kBuckets; ++bucket) {
      float *p = parameters + bucket * kCount, *g = gradients + bucket * kCount;
      each(*compute, kCount, Backward{p, g});
      ready[bucket]->record(*compute);
      if (order.waits_for_ready) ready[bucket]->wait(*updates);
      each(*updates, kCount, Update{p, g});
    }
    updated->record(*updates);
    if (order.joins) updated->wait(*compute);
  }
  updated->wait(*compute);
  device->copy(*compute, answer.get(), parameters, sizeof(float));
  compute->synchronize();
  updates->synchronize();
  return *reinterpret_cast<float*>(answer.get());
}

/// For a test that expects the end of the process: what ThreadSanitizer has reported by then is its
/// exit code, 66.
[[noreturn]] void train_and_exit(const Order& order) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) train(order, seed);
  std::exit(0);
}

class EventOrder : public testing::Test {
 protected:
  EventOrder() { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(EventOrder, KeptIsFreeOfRaces) {
  float expected = 0;
  for (int step = 0; step < kSteps; ++step) expected -= 0.1f * (0.5f * expected + 1);
  for (std::uint64_t seed = 1; seed <= 5; ++seed) EXPECT_FLOAT_EQ(train({}, seed), expected);
  EXPECT_EXIT(train_and_exit({}), testing::ExitedWithCode(0), "");
}

TEST_F(EventOrder, ASumThatDoesNotWaitForItsGradientsIsCaught) {
  EXPECT_EXIT(train_and_exit({.waits_for_ready = false}), testing::ExitedWithCode(66), "data race");
}

TEST_F(EventOrder, AStepThatDoesNotWaitForTheUpdatesIsCaught) {
  EXPECT_EXIT(train_and_exit({.joins = false}), testing::ExitedWithCode(66), "data race");
}

}  // namespace
}  // namespace lockstep
