#include "apps/step/factor_sums.h"

#include <algorithm>
#include <type_traits>

#include "collectives/algorithms/algorithms.h"
#include "collectives/reducers/measured_link.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/crc32c.h"
#include "src/base/random.h"

namespace lockstep {
namespace {

struct Trial {
  bool alike;      ///< all ranks have the same bits
  double seconds;  ///< of the slowest
};

/// Multiplies the same random numbers on all ranks. Collective.
Trial try_product(const Comm& comm, Device& device, Model& model, std::size_t product) {
  const Model::Product& of = model.products()[product];
  const Memory factors = device.allocate(of.bytes, Place::host);
  Random random(1, Purpose::generate, 0, 0);
  dispatch(model.type(), [&](auto* tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    T* const values = reinterpret_cast<T*>(factors.get());
    std::generate_n(values, of.bytes / sizeof(T),
                    [&] { return static_cast<T>(random.uniform(-1.0f, 1.0f)); });
  });
  const std::size_t bytes = of.layer.count * sizeof(float);
  const Memory gradients = device.allocate(bytes, Place::host);
  auto* const to = reinterpret_cast<float*>(gradients.get());
  const std::unique_ptr<Stream> stream = device.stream();
  double least = 0;
  for (int time = 0; time < 3; ++time) {  // the first one begins with cold caches
    const double start = now_seconds();
    model.multiply(*stream, product, factors.get(), to);
    stream->synchronize();
    const double seconds = now_seconds() - start;
    least = time == 0 ? seconds : std::min(least, seconds);
  }
  const std::int64_t bits = crc32c({reinterpret_cast<const char*>(to), bytes});
  const double slowest = static_cast<double>(comm.max(static_cast<std::int64_t>(least * 1e9)));
  return {comm.min(bits) == comm.max(bits), slowest * 1e-9};
}

}  // namespace

std::vector<int> ranks_by_host(const Comm& comm) {
  const Comm node = comm.node();
  const std::uint64_t own = node.rank() == 0 ? static_cast<std::uint64_t>(node.size()) : 0;
  std::vector<int> ranks;
  for (const std::uint64_t size : comm.all_gather(std::span(&own, 1))) {
    if (size > 0) ranks.push_back(static_cast<int>(size));
  }
  return ranks;
}

FactorCost cost_of_factors(const FactorWork& work, const Link& link) {
  const auto hosts = static_cast<int>(work.ranks_on.size());
  const Range range{0, work.count};
  FactorCost cost;
  if (hosts > 1) {
    const Algorithm cheapest = algorithms_by_cost(hosts, {&range, 1}, link).front()->algorithm;
    cost.summed = lockstep::cost(cheapest, hosts, work.count, link);
    cost.factors =
        cost_of_gather(work.ranks_on, static_cast<double>(work.own_shards * work.bytes), link);
  }
  // What others have to be multiplied, and all but one to be kept and added.
  const double passes = 3.0 * static_cast<double>(work.count) * sizeof(float) / link.add_rate;
  cost.factors += (work.shards - work.own_shards) * work.product + (work.shards - 1) * passes;
  return cost;
}

FactorChoice choose_factors(const Comm& comm, const std::vector<int>& hosts, Device& device,
                            Model& model, std::string_view how, bool auto_may, const RunPlan& plan,
                            const std::function<Link()>& link) {
  const bool wanted = how == "factors";
  agree(comm, [&] {
    if (wanted && !device.traits().memory_is_host)
      fail_usage("--dense-gradient factors is for CPU cores: leave it out, or say --device cpu");
  });
  FactorChoice choice;
  const bool several = hosts.size() > 1;
  if (!wanted && (how != "auto" || !auto_may || !device.traits().memory_is_host || !several))
    return choice;
  const Link way = several ? link() : Link();
  FactorCost all;
  std::vector<std::string> names;
  for (std::size_t product = 0; product < model.products().size(); ++product) {
    const Model::Product& of = model.products()[product];
    FactorWork work{.count = of.layer.count,
                    .bytes = of.bytes,
                    .shards = plan.shards,
                    .own_shards = plan.own_shards,
                    .ranks_on = hosts};
    FactorCost cost = cost_of_factors(work, way);
    const auto worth_it = [&] { return wanted || cost.factors < cost.summed; };
    if (!worth_it()) continue;
    const Trial trial = try_product(comm, device, model, product);
    agree(comm, [&] {
      if (wanted && !trial.alike) {
        fail_usage(
            "--dense-gradient factors: ranks multiply differently (other processors, --threads or "
            "--isa), and would not stay in lockstep: leave it out");
      }
    });
    work.product = trial.seconds;
    cost = cost_of_factors(work, way);
    if (!trial.alike || !worth_it()) continue;
    all = {all.factors + cost.factors, all.summed + cost.summed};
    choice.products.push_back(product);
    names.push_back(fmt::format("{} {} of {} KiB", of.name, plan.own_shards * of.bytes >> 10,
                                of.layer.count >> 8));
  }
  if (names.empty()) return choice;
  choice.text = fmt::format("gradients as factors: from each rank {}", fmt::join(names, ", "));
  if (several) {
    choice.text += fmt::format("; estimated {:.3g} ms, {:.3g} ms as sums", 1e3 * all.factors,
                               1e3 * all.summed);
  }
  return choice;
}

FactorSums::FactorSums(const Comm& comm, Device& device, Model& model,
                       const std::vector<std::size_t>& products, int own_shards, float* gradients)
    : model_(model), size_(comm.size()), own_shards_(own_shards) {
  for (const std::size_t product : products) {
    const Model::Product& of = model.products()[product];
    float* const to = gradients + of.layer.begin;
    layers_.push_back({product, to,
                       std::make_unique<AllGather>(comm.duplicate(), of.bytes * own_shards),
                       std::make_unique<ShardSum>(device, to, of.layer.count, own_shards),
                       std::make_unique<ShardSum>(device, to, of.layer.count, size_)});
  }
}

Range FactorSums::range(std::size_t n) const { return product(layers_[n]).layer; }

void FactorSums::begin(int shard, int lane) {
  for (const Layer& layer : layers_) {
    model_.factors_to(layer.product, layer.gather->own() + shard * product(layer).bytes, lane);
  }
}

void FactorSums::multiply(Stream& stream, std::size_t n) {
  const Layer& layer = layers_[n];
  const Model::Product& of = product(layer);
  const Range all{0, of.layer.count};
  for (int rank = 0; rank < size_; ++rank) {
    std::byte* const factors = layer.gather->of(rank).data();
    const auto multiply = [&](int shard, float* to) {
      model_.multiply(stream, layer.product, factors + shard * of.bytes, to);
    };
    float* const place = own_shards_ == 1 ? layer.ranks->place(rank) : nullptr;
    if (place != nullptr) {
      multiply(0, place);
      continue;
    }
    for (int shard = 0; shard < own_shards_; ++shard) {
      float* const waits = layer.shards->place(shard);
      multiply(shard, waits != nullptr ? waits : layer.gradients);
      if (waits == nullptr && shard < own_shards_ - 1) layer.shards->take(shard, all, stream);
    }
    layer.shards->finish(all, stream);
    if (rank < size_ - 1) layer.ranks->take(rank, all, stream);
  }
  layer.ranks->finish(all, stream);
}

std::size_t FactorSums::bytes() const {
  std::size_t total = 0;
  for (const Layer& layer : layers_)
    total += layer.gather->bytes() + layer.shards->bytes() + layer.ranks->bytes();
  return total;
}

}  // namespace lockstep
