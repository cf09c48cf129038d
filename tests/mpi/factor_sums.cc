// Which layers go as factors, where one rank is slower than others or multiplies differently, and
// what becomes of their gradients.
#include "apps/step/factor_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "collectives/sum.h"
#include "src/base/random.h"
#include "src/base/table.h"
#include "tests/mpi/world.h"
#include "tests/support/wrapped_device.h"

namespace lockstep {
namespace {

/// A dense plan whose products on one rank are late, or other in the last of their bits.
class OddPlan : public AffinePlan {
 public:
  OddPlan(std::unique_ptr<AffinePlan> plan, int late_ms, bool other)
      : plan_(std::move(plan)), late_ms_(late_ms), other_(other) {}

  void forward(Stream& stream, View x, View w, View b, View y, void* scratch) override {
    plan_->forward(stream, x, w, b, y, scratch);
  }
  void backward_data(Stream& stream, View dy, View w, View dx, void* scratch) override {
    plan_->backward_data(stream, dy, w, dx, scratch);
  }
  void backward_weights(Stream& stream, View x, View dy, View dw, View db, void* scratch) override {
    plan_->backward_weights(stream, x, dy, dw, db, scratch);
    std::this_thread::sleep_for(std::chrono::milliseconds(late_ms_));
    if (!other_) return;
    float& last = dw.as<float>()[dw.count() - 1];
    last = std::nextafter(last, 1e9f);
  }
  std::size_t scratch_bytes() const override { return plan_->scratch_bytes(); }
  std::string implementation() const override { return plan_->implementation(); }

 private:
  std::unique_ptr<AffinePlan> plan_;
  int late_ms_;
  bool other_;
};

class OddDevice : public WrappedDevice {
 public:
  OddDevice(int late_ms, bool other) : late_ms_(late_ms), other_(other) {}
  std::unique_ptr<AffinePlan> dense(const DenseSpec& spec) override {
    return std::make_unique<OddPlan>(WrappedDevice::dense(spec), late_ms_, other_);
  }

 private:
  int late_ms_;
  bool other_;
};

constexpr Link kSlow{.latency = 50e-6, .bandwidth = 125e6, .add_rate = 10e9};
constexpr Link kFast{.latency = 5e-6, .bandwidth = 50e9, .add_rate = 10e9};

bool is_last() { return world().comm().rank() == world().comm().size() - 1; }

/// Of the tutorial's network with 8 samples on each of these ranks, as if each had a host.
struct Case {
  int late_ms = 0;  ///< of the last rank
  bool other = false;
  std::string_view how = "auto";
  bool auto_may = true;
  Link link = kSlow;
  bool one_host = false;

  std::vector<std::string> layers() const {
    const Comm comm = world().comm();
    OddDevice device(is_last() ? late_ms : 0, other && is_last());
    const ModelEntry& entry = find(models(), "tutorial");
    Model model(device, entry, entry.sample, 10, 8, Type::f32, true);
    RunPlan plan;
    plan.shards = comm.size();
    plan.own_shards = 1;
    const std::vector<int> hosts =
        one_host ? std::vector<int>{comm.size()} : std::vector<int>(comm.size(), 1);
    const FactorChoice choice =
        choose_factors(comm, hosts, device, model, how, auto_may, plan, [&] { return link; });
    EXPECT_EQ(choice.text.empty(), choice.products.empty());
    std::vector<std::string> names;
    for (const std::size_t product : choice.products)
      names.push_back(model.products()[product].name);
    return names;
  }
};

using Names = std::vector<std::string>;
const Names kAll = {"softmax_linear", "local4", "local3"};

bool has_large_one(const Names& names) {
  return std::find(names.begin(), names.end(), "local3") != names.end();
}

TEST(ChooseFactors, TakesThemWhereTheyAreFaster) {
  if (world().comm().size() == 1) GTEST_SKIP() << "one rank sums with nobody";
  EXPECT_TRUE(has_large_one(Case{}.layers()));
  EXPECT_EQ(Case{.link = kFast}.layers(), Names{});
  EXPECT_EQ(Case{.one_host = true}.layers(), Names{});
  EXPECT_EQ(Case{.auto_may = false}.layers(), Names{});
  EXPECT_EQ(Case{.how = "summed"}.layers(), Names{});
  EXPECT_EQ((Case{.how = "factors", .auto_may = false, .link = kFast}.layers()), kAll);
  EXPECT_EQ((Case{.how = "factors", .one_host = true}.layers()), kAll);
}

TEST(ChooseFactors, GoesByTheSlowestRank) {
  if (world().comm().size() == 1) GTEST_SKIP() << "one rank sums with nobody";
  EXPECT_EQ(Case{.late_ms = 60}.layers(), Names{}) << "on all ranks";
  EXPECT_EQ((Case{.late_ms = 60, .how = "factors"}.layers()), kAll);
}

TEST(ChooseFactors, TakesNoneThatRanksMultiplyDifferently) {
  if (world().comm().size() == 1) GTEST_SKIP() << "one rank is like itself";
  EXPECT_EQ(Case{.other = true}.layers(), Names{});
  EXPECT_THROW((Case{.other = true, .how = "factors"}.layers()), AgreedError);
}

class FactorSumsOfShards : public testing::TestWithParam<int> {};

TEST_P(FactorSumsOfShards, AreTheSumsOfTheirProducts) {
  const Comm comm = world().comm();
  const int own = GetParam();
  const auto device = make_cpu_device(1);
  const ModelEntry& entry = find(models(), "tutorial");
  Model model(*device, entry, entry.sample, 10, 2, Type::f32, true);
  std::vector<float> gradients(model.layout().count);
  const std::vector<std::size_t> products = {0, 2};
  FactorSums sums(comm, *device, model, products, own, gradients.data());
  ASSERT_EQ(sums.size(), 2u);
  const auto stream = device->stream();
  // What backward() would have left there.
  const auto factors_of = [&](int shard, std::size_t product) {
    std::vector<std::byte> bytes(model.products()[product].bytes);
    Random random(1, Purpose::generate, static_cast<std::uint32_t>(shard),
                  static_cast<std::uint32_t>(product));
    for (std::size_t i = 0; i + 4 <= bytes.size(); i += 4) {
      const float value = random.normal();
      std::memcpy(&bytes[i], &value, sizeof value);
    }
    return bytes;
  };
  std::size_t least = 0;
  for (std::size_t n = 0; n < products.size(); ++n) {
    const Range layer = model.products()[products[n]].layer;
    EXPECT_EQ(sums.range(n), layer);
    std::vector<std::vector<float>> by_rank;
    for (int rank = 0; rank < comm.size(); ++rank) {
      std::vector<std::vector<float>> by_shard;
      std::vector<float*> parts;
      for (int shard = 0; shard < own; ++shard) {
        std::vector<std::byte> factors = factors_of(rank * own + shard, products[n]);
        by_shard.emplace_back(layer.count);
        model.multiply(*stream, products[n], factors.data(), by_shard.back().data());
        if (rank != comm.rank()) continue;
        std::copy(factors.begin(), factors.end(), sums.gather(n).own() + shard * factors.size());
      }
      for (auto& part : by_shard) parts.push_back(part.data());
      sum_canonically(parts, layer.count);
      by_rank.push_back(by_shard.front());
    }
    std::vector<float*> parts;
    for (auto& part : by_rank) parts.push_back(part.data());
    sum_canonically(parts, layer.count);
    sums.gather(n).start();
    while (!sums.gather(n).advance()) continue;
    sums.multiply(*stream, n);
    EXPECT_EQ(std::memcmp(gradients.data() + layer.begin, by_rank.front().data(),
                          layer.count * sizeof(float)),
              0)
        << n;
    least += model.products()[products[n]].bytes * own * comm.size();
    if (comm.size() > 1) least += layer.count * sizeof(float);
  }
  const Range left_out = model.products()[1].layer;
  EXPECT_TRUE(std::all_of(gradients.begin() + left_out.begin, gradients.begin() + left_out.end(),
                          [](float value) { return value == 0; }));
  EXPECT_GE(sums.bytes(), least);
}

INSTANTIATE_TEST_SUITE_P(Shards, FactorSumsOfShards, testing::Values(1, 2, 3));

}  // namespace
}  // namespace lockstep
