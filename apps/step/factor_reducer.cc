#include "apps/step/factor_reducer.h"

#include <algorithm>
#include <map>
#include <utility>

#include "collectives/algorithms/algorithms.h"
#include "collectives/reducers/reducers.h"
#include "collectives/sum.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/crc32c.h"
#include "src/base/random.h"
#include "src/device/arena.h"
#include "src/device/parallel_for.h"

namespace lockstep {
namespace {

constexpr std::int64_t kGrain = 16384;  ///< the fewest floats that another thread adds
constexpr int kProduct = -1;            ///< in place of a row

float* floats(const Memory& memory) { return reinterpret_cast<float*>(memory.get()); }

/// The dense layers of `model` that are trained, without plans.
std::vector<FactorLayer> dense_layers(const Model& model) {
  const auto padded = [](std::int64_t count) {
    return static_cast<std::int64_t>(Arena::aligned(count * sizeof(float)) / sizeof(float));
  };
  std::vector<FactorLayer> found;
  const std::vector<Parameter>& all = model.layout().parameters;
  for (std::size_t n = 0; n < all.size(); ++n) {
    const Parameter& weights = all[n];
    const LayerSummary& summary = model.layers()[weights.layer];
    const bool first = n == 0 || all[n - 1].layer != weights.layer;
    if (!first || summary.kind != "dense" || !weights.stepped()) continue;
    FactorLayer& layer = found.emplace_back();
    layer.name = summary.name;
    layer.number = weights.layer;
    layer.range = model.layout().range_of(weights.layer);
    layer.weights = weights.range;
    const std::int64_t features = weights.shape[0], rows = summary.output.count() / features;
    layer.spec.input.x = {rows, weights.shape[1]};
    layer.spec.features = features;
    layer.spec.relu = summary.numbers.at("relu") != 0;
    layer.spec.biases = n + 1 < all.size() && all[n + 1].layer == weights.layer;
    if (layer.spec.biases) layer.biases = all[n + 1].range;
    layer.dy_at = padded(layer.spec.input.x.count());
    layer.factors = layer.dy_at + padded(rows * features);
  }
  return found;
}

/// Writes the gradient for the factors of a shard to `gradient`, laid out as the layer's range.
void multiply(const FactorLayer& layer, float* factors, float* gradient, Stream& stream,
              const Memory& scratch) {
  const auto [x, features] = std::pair(layer.spec.input.x, layer.spec.features);
  const auto at = [&](Range range) { return gradient + range.begin - layer.range.begin; };
  const View dw{at(layer.weights), {features, x[1]}, Type::f32};
  const View db = layer.spec.biases ? View{at(layer.biases), {features}, Type::f32} : View();
  const View dy{factors + layer.dy_at, {x[0], features}, Type::f32};
  layer.plan->backward_weights(stream, {factors, x, Type::f32}, dy, dw, db, scratch.get());
}

/// The seconds of the slowest rank for a product of random numbers. None: the ranks do not multiply
/// bitwise alike. Collective.
std::optional<double> try_product(const Comm& comm, Device& device, const FactorLayer& layer) {
  double least = 0;
  std::int64_t bits = 0;
  agree(comm, [&] {
    const std::size_t bytes = layer.range.count * sizeof(float);
    const Memory factors = device.allocate(layer.factors * sizeof(float), Place::device);
    const Memory gradient = device.allocate(bytes, Place::device);
    const Memory scratch = device.allocate(layer.plan->scratch_bytes(), Place::device);
    Random random(1, Purpose::generate, 0, 0);
    std::generate_n(floats(factors), layer.factors, [&] { return random.uniform(-1.0f, 1.0f); });
    const std::unique_ptr<Stream> stream = device.stream();
    for (int time = 0; time < 3; ++time) {  // the first begins with cold caches
      const double began = now_seconds();
      multiply(layer, floats(factors), floats(gradient), *stream, scratch);
      const double seconds = now_seconds() - began;
      least = time == 0 ? seconds : std::min(least, seconds);
    }
    bits = crc32c({reinterpret_cast<const char*>(gradient.get()), bytes});
  });
  if (comm.min(bits) != comm.max(bits)) return std::nullopt;
  return static_cast<double>(comm.max(static_cast<std::int64_t>(least * 1e9))) * 1e-9;
}

/// Whether factors cost less between hosts with so many `shards` each. A rank multiplies up to
/// `others` shards, in `product` seconds each.
bool pays(const FactorLayer& layer, const std::map<std::uint64_t, int>& shards, int others,
          double product, const Link& link) {
  const auto hosts = static_cast<int>(shards.size());
  int all = 0, most = 0;  // that a host sends or receives
  for (const auto& [host, own] : shards) all += own;
  for (const auto& [host, own] : shards) most = std::max({most, own * (hosts - 1), all - own});
  const double bytes = static_cast<double>(most * layer.factors) * sizeof(float);
  const double addition = static_cast<double>(layer.range.count) * sizeof(float) / link.add_rate;
  const Algorithm best = algorithms_by_cost(hosts, {&layer.range, 1}, link).front()->algorithm;
  return link.latency + bytes / link.bandwidth + others * (product + addition) <
         cost(best, hosts, layer.range.count, link);
}

}  // namespace

std::vector<std::uint64_t> hosts_of(const Comm& comm) {
  const std::uint64_t first = comm.node().min(comm.rank());
  return comm.all_gather(std::span(&first, 1));
}

std::vector<FactorLayer> choose_factors(const Comm& comm, const std::vector<std::uint64_t>& hosts,
                                        Device& device, const Model& model, const Shares& shares,
                                        const std::optional<Link>& link) {
  std::map<std::uint64_t, int> by_host;
  for (int rank = 0; rank < comm.size(); ++rank) by_host[hosts[rank]] += shares.counts()[rank];
  const int others = shares.shards() - std::ranges::min(shares.counts());
  std::vector<FactorLayer> chosen;
  for (FactorLayer& layer : dense_layers(model)) {
    const auto chooses = [&](double product) {
      return link ? pays(layer, by_host, others, product, *link)
                  : layer.factors < layer.range.count;
    };
    if (!chooses(0)) continue;
    agree(comm, [&] { layer.plan = device.dense(layer.spec); });
    const std::optional<double> product = try_product(comm, device, layer);
    if (product && chooses(*product)) chosen.push_back(std::move(layer));
  }
  return chosen;
}

FactorReducer::FactorReducer(std::unique_ptr<Reducer> inner, std::vector<FactorLayer> layers,
                             const std::vector<Range>& buckets, const Comm& comm,
                             const std::vector<std::uint64_t>& hosts, Device& device,
                             const Shares& shares)
    : inner_(std::move(inner)),
      layers_(std::move(layers)),
      device_(device),
      stream_(device.stream()),
      first_shard_(shares.of(comm.rank()).begin),
      rows_(rows_of(*inner_)) {
  traits_ = inner_->traits();
  expect(traits_.canonical, "products are added in canonical order");
  plan_moves(shares, comm.rank());
  allocate(comm.duplicate(), hosts, shares);
  std::vector<std::string> names;
  for (const FactorLayer& layer : layers_) names.push_back(layer.name);
  traits_.description += fmt::format("; factors of {}", fmt::join(names, ", "));
  traits_.calls_mpi = true;
  int number = 0;
  for (const Range& bucket : buckets) {
    const auto layer = std::ranges::find(layers_, bucket, &FactorLayer::range);
    owners_.push_back(layer == layers_.end() ? Owner{nullptr, number++} : Owner{&*layer, 0});
  }
  expect(owners_.size() == layers_.size() + number, "a layer that sends factors is no bucket");
}

/// The additions of any sum. Rows of the inner reducer have the sums of own shards. Memory is
/// planned for the products of other ranks that wait for their right neighbour.
void FactorReducer::plan_moves(const Shares& shares, int own_rank) {
  const int own_rows = row_count_ = static_cast<int>(rows_.size());
  const Range own = shares.of(own_rank);
  std::vector<Range> leaves;
  for (int rank = 0; rank < shares.ranks(); ++rank) {
    const std::vector<Range> more =
        rank == own_rank ? roots_of(own, shares.shards()) : single_shards(shares.of(rank));
    leaves.insert(leaves.end(), more.begin(), more.end());
  }
  const Fold fold = Fold::of(leaves, shares.shards());
  std::vector<int> stack, unused;
  for (std::size_t leaf = 0, row = 0; leaf < leaves.size(); ++leaf) {
    if (own.contains(leaves[leaf])) {
      stack.push_back(static_cast<int>(row++));
    } else {
      if (unused.empty()) unused.push_back(row_count_++);
      stack.push_back(unused.back());
      unused.pop_back();
      moves_.push_back({stack.back(), kProduct, static_cast<int>(leaves[leaf].begin)});
    }
    for (int merge = 0; merge < fold.merges[leaf]; ++merge) {
      int to = stack.end()[-2], from = stack.back();
      if (from < own_rows) std::swap(to, from);  // so that the last own row gets the sum
      stack.pop_back();
      stack.back() = to;
      moves_.push_back({to, from, 0});
      if (from >= own_rows) unused.push_back(from);
    }
  }
  expect(stack == std::vector{own_rows - 1}, "the sum of the products is in another row");
}

/// Collective.
void FactorReducer::allocate(const Comm& messages, const std::vector<std::uint64_t>& hosts,
                             const Shares& shares) {
  const std::size_t chunk = chunk_for(messages);
  std::int64_t longest = 0;
  std::size_t scratch = 0;
  const auto memory = [&](std::size_t bytes) {
    traits_.bytes += bytes;
    return device_.allocate(bytes, Place::device);
  };
  agree(messages, [&] {
    for (FactorLayer& layer : layers_) {
      longest = std::max(longest, layer.range.count);
      scratch = std::max(scratch, layer.plan->scratch_bytes());
      layer.memory = memory(shares.shards() * layer.factors * sizeof(float));
      std::vector<Range> blocks;
      for (int rank = 0; rank < shares.ranks(); ++rank) {
        const Range own = shares.of(rank);
        blocks.push_back({own.begin * layer.factors, own.count * layer.factors});
      }
      layer.gather = make_run(messages, all_gather(hosts, blocks, messages.rank()), chunk,
                              static_cast<int>(&layer - layers_.data()));
    }
    for (int row = static_cast<int>(rows_.size()); row < row_count_; ++row)
      products_.push_back(memory(longest * sizeof(float)));
    scratch_ = memory(scratch);
  });
}

void FactorReducer::keep(int number, int shard, View x, View dy, Stream& stream) {
  const auto layer = std::ranges::find(layers_, number, &FactorLayer::number);
  if (layer == layers_.end()) return;
  float* const to = floats(layer->memory) + (first_shard_ + shard) * layer->factors;
  device_.copy(stream, to, x.data, x.bytes());
  device_.copy(stream, to + layer->dy_at, dy.data, dy.bytes());
}

void FactorReducer::written(int bucket, Stream& writer) {
  const auto [layer, number] = owners_[bucket];
  if (layer == nullptr) inner_->written(number, writer);
}

void FactorReducer::start(int bucket) {
  const auto [layer, number] = owners_[bucket];
  if (layer == nullptr) return inner_->start(number);
  layer->done = false;
  layer->gather->start(floats(layer->memory));
}

bool FactorReducer::advance() {
  bool busy = inner_->advance();
  for (const FactorLayer& layer : layers_) busy |= layer.gather->advance();
  return busy;
}

bool FactorReducer::done(int bucket) const {
  const auto [layer, number] = owners_[bucket];
  return layer == nullptr ? inner_->done(number) : layer->done;
}

void FactorReducer::finish(int bucket) {
  FactorLayer* const layer = owners_[bucket].layer;
  backoff_.begin();
  for (advance(); layer == nullptr ? !done(bucket) : !layer->gather->done(); advance())
    backoff_.between();
  if (layer == nullptr || layer->done) return;
  add_products(*layer);
  layer->done = true;
}

void FactorReducer::add_products(const FactorLayer& layer) {
  const auto row = [&](int number) {
    const auto product = static_cast<std::size_t>(number) - rows_.size();
    return static_cast<std::size_t>(number) < rows_.size() ? rows_[number] + layer.range.begin
                                                           : floats(products_[product]);
  };
  for (const auto [to, from, shard] : moves_) {
    if (from == kProduct) {
      multiply(layer, floats(layer.memory) + shard * layer.factors, row(to), *stream_, scratch_);
      advance();  // messages of other buckets
      continue;
    }
    for (const Range& part : {layer.weights, layer.biases}) {  // gaps stay zeros
      float* const sum = row(to) + part.begin - layer.range.begin;
      const float* const more = row(from) + part.begin - layer.range.begin;
      parallel_for(stream_->threads(), part.count, kGrain,
                   [=](auto begin, auto end) { add(sum + begin, more + begin, end - begin); });
    }
  }
}

}  // namespace lockstep
