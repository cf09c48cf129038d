// Sums with 16-bit messages: no error over many steps, bitwise identical on all ranks, and exact
// resume.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>

#include "tests/mpi/reductions.h"
#include "tests/support/error_of.h"

namespace lockstep {
namespace {

bool is_summed(std::int64_t i) { return i < 1000 || (i >= 1008 && i < 2999); }

/// A reducer that rounds to `wire` between ranks (direct) or pairs of ranks, with two buckets and a
/// step header of 16 elements.
struct Rounded {
  static constexpr std::int64_t kCount = 3000, kExact = 16;

  Rounded(const Comm& comm, Device& device, Type wire, bool on_pairs) {
    ReducerSpec spec{comm.duplicate(), device, kCount, {{0, 1000}, {1008, 1991}}};
    spec.wire = wire;
    spec.exact = kExact;
    reducer = on_pairs ? make_on_groups(spec, comm.rank() / 2) : make_reducer("direct", spec);
  }
  /// One step with value(i) of this rank. Returns the sums.
  template <class Value>
  Floats sum(Value value) {
    float* gradients = reducer->gradients();
    for (std::int64_t i = 0; i < kCount; ++i) gradients[i] = is_summed(i) ? value(i) : 0;
    for (const int bucket : {0, 1}) reducer->start(bucket);
    for (const int bucket : {1, 0}) reducer->finish(bucket);
    return Floats(gradients, gradients + kCount);
  }
  std::unique_ptr<Reducer> reducer;
};

class Wire : public testing::TestWithParam<std::tuple<Type, bool>> {
 protected:
  Comm comm_ = world().comm();
  std::unique_ptr<Device> device_ = make_cpu_device(1);
  Rounded made() { return {comm_, *device_, std::get<0>(GetParam()), std::get<1>(GetParam())}; }
};

TEST_P(Wire, SumsExactlyNumbersOfItsType) {
  Rounded rounded = made();
  const int ranks = comm_.size();
  const Floats sums =
      rounded.sum([&](std::int64_t i) { return static_cast<float>((comm_.rank() + 1) * (i % 9)); });
  for (std::int64_t i = 0; i < Rounded::kCount; ++i) {
    const auto all = static_cast<float>(ranks * (ranks + 1) / 2 * (i % 9));
    if (is_summed(i)) {
      ASSERT_EQ(sums[i], all) << i;
    }
  }
}

TEST_P(Wire, HasNoErrorOverManyStepsAndIsIdenticalOnAllRanks) {
  Rounded rounded = made();
  std::vector<double> arrived(Rounded::kCount), sent(Rounded::kCount), size(Rounded::kCount);
  bool rounds = false;
  for (int step = 0; step < 40; ++step) {
    const Floats sums =
        rounded.sum([&](std::int64_t i) { return random_value(comm_.rank(), step, i); });
    const std::string mine(reinterpret_cast<const char*>(sums.data()), Rounded::kCount * 4);
    ASSERT_TRUE(comm_.broadcast(mine) == mine) << "step " << step;
    for (std::int64_t i = 0; i < Rounded::kCount; ++i) {
      const auto at = static_cast<std::size_t>(i);
      Floats shards;
      for (int rank = 0; rank < comm_.size(); ++rank) shards.push_back(random_value(rank, step, i));
      const float exact = canonical_sum(shards);
      if (i < Rounded::kExact && rounded.reducer->traits().name == "direct") {
        ASSERT_EQ(sums[at], exact) << "the step header";
      }
      arrived[at] += sums[at];
      sent[at] += exact;
      size[at] += std::fabs(exact);
      rounds |= is_summed(i) && sums[at] != exact;
    }
  }
  const int senders = std::get<1>(GetParam()) ? (comm_.size() + 1) / 2 : comm_.size();
  EXPECT_EQ(rounds, senders > 1);
  EXPECT_EQ(rounded.reducer->traits().canonical, senders == 1);
  std::vector<std::int64_t> still(Rounded::kCount);  // of all ranks, in units of 2^-40
  if (const float* kept = rounded.reducer->traits().residual) {
    std::transform(kept, kept + Rounded::kCount, still.begin(),
                   [](float value) { return std::llround(value * 0x1p40); });
  }
  comm_.sum(still);
  for (std::int64_t i = 0; i < Rounded::kCount; ++i) {
    if (!is_summed(i)) continue;
    const auto at = static_cast<std::size_t>(i);
    const double of_all = static_cast<double>(still[at]) * 0x1p-40;
    ASSERT_NEAR(arrived[at] + of_all, sent[at], 2e-6 * size[at]) << i;
  }
}

TEST_P(Wire, ResumesExactlyWithTheResidual) {
  Rounded whole = made(), before = made(), after = made();
  const auto step = [&](Rounded& rounded, int number) {
    return rounded.sum([&](std::int64_t i) { return random_value(comm_.rank(), number, i); });
  };
  for (int number = 0; number < 3; ++number) step(whole, number), step(before, number);
  if (const float* kept = before.reducer->traits().residual)
    std::copy_n(kept, Rounded::kCount, after.reducer->traits().residual);
  for (int number = 3; number < 6; ++number) EXPECT_EQ(step(whole, number), step(after, number));
}

INSTANTIATE_TEST_SUITE_P(Types, Wire,
                         testing::Combine(testing::Values(Type::bf16, Type::f16), testing::Bool()),
                         [](const auto& info) {
                           return std::string(name_of(std::get<0>(info.param))) +
                                  (std::get<1>(info.param) ? "_between_pairs" : "_between_ranks");
                         });

TEST(MakeReducer, SixteenBitsAreRefusedIfNothingRounds) {
  const auto device = make_cpu_device(1);
  for (const char* name : {"tree", "ring", "mpi", "shared"}) {
    ReducerSpec spec{world().comm(), *device, 10, {{0, 10}}};
    spec.wire = Type::bf16;
    expect_agreed_error({"--wire bf16", name}, [&] { make_reducer(name, spec); });
  }
}

}  // namespace
}  // namespace lockstep
