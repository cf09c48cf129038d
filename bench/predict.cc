// How long a training step takes on machines that nobody has at hand, from the schedules' own
// costs:
//   predict > FILE
// prints a line for each network, link and number of ranks:
//   NETWORK GBITS RANKS ALGORITHM BUCKETS COMPUTE_MS SUMS_MS EXPOSED_MS
// bench/plot_predictions.py draws it. Ranks are on a host each; each computes as long as one alone,
// and the global batch grows with them. A bucket is summed when the gradients of its layers are
// ready and the bucket before it is summed: what lasts longer than the backward pass is exposed.
// The algorithm and the size of buckets are those that --reducer auto takes.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "collectives/algorithms.h"
#include "collectives/buckets.h"
#include "net/model.h"
#include "src/table.h"

namespace lockstep {
namespace {

/// In the order of the forward pass.
struct LayerLoad {
  std::int64_t parameters = 0;
  double operations = 0;  ///< of one image, forward, up to a factor
};

struct Network {
  const char* name;
  std::vector<LayerLoad> layers;
  double step_seconds;  ///< of one rank alone
};

/// The layers of a model of the menu.
std::vector<LayerLoad> layers_of(const char* name, int classes) {
  const auto device = make_cpu_device(1);
  const ModelEntry& entry = find(models(), name);
  const Model model(*device, entry, entry.sample, classes, 1, Type::f32, /*training=*/true);
  std::vector<LayerLoad> layers;
  for (const LayerSummary& layer : model.layers())
    layers.push_back({layer.parameters, layer.multiply_adds});
  return layers;
}

/// ResNet-50 on 224 x 224 images, 25.6 million parameters. Source: K. He et al., "Deep residual
/// learning for image recognition", 2016, table 1. A block counts as one layer.
std::vector<LayerLoad> resnet50() {
  std::vector<LayerLoad> layers;
  const auto add = [&](std::int64_t parameters, double pixels) {
    layers.push_back({parameters, pixels * static_cast<double>(parameters)});
  };
  add(49 * 3 * 64 + 128, 112 * 112);
  std::int64_t in = 64, width = 64;
  double pixels = 56 * 56;
  for (const int blocks : {3, 4, 6, 3}) {
    const std::int64_t out = 4 * width;
    for (int block = 0; block < blocks; ++block) {
      const std::int64_t shortcut = block == 0 ? in * out + 2 * out : 0;
      add(in * width + 9 * width * width + width * out + 4 * width + 2 * out + shortcut, pixels);
      in = out;
    }
    width *= 2;
    pixels /= 4;
  }
  add(2048 * 1000 + 1000, 1);
  return layers;
}

/// Bytes that a rank adds per second, as one core does.
constexpr double kAddRate = 10e9;

void predict(const Network& network, double gbits, double latency, int ranks) {
  const Link link{latency, gbits * 1e9 / 8, kAddRate};
  // A third of the work is forward. Gradients come from the last layer on.
  double operations = 0;
  for (const LayerLoad& layer : network.layers) operations += layer.operations;
  double now = network.step_seconds / 3;
  std::vector<Range> parts;
  std::vector<double> ready;  // by part
  std::int64_t end = 0;
  for (auto layer = network.layers.rbegin(); layer != network.layers.rend(); ++layer) {
    now += network.step_seconds * 2 / 3 * layer->operations / operations;
    if (layer->parameters == 0) continue;
    parts.push_back({end, layer->parameters});
    ready.push_back(now);
    end = parts.back().end();
  }
  const std::int64_t bytes =
      bucket_bytes(ranks, link, end * static_cast<std::int64_t>(sizeof(float)));
  const std::vector<Range> buckets = cut_buckets(parts, bytes);
  const AlgorithmEntry& algorithm = *algorithms_by_cost(ranks, buckets, link).front();
  double done = 0, sums = 0;
  for (const Range& bucket : buckets) {
    const auto last = std::find_if(parts.begin(), parts.end(),
                                   [&](const Range& part) { return part.end() >= bucket.end(); });
    const double seconds = cost(algorithm.algorithm, ranks, bucket.count, link);
    done = std::max(done, ready[last - parts.begin()]) + seconds;
    sums += seconds;
  }
  const double exposed = std::max(0.0, done - network.step_seconds);
  fmt::print("{} {:g} {} {} {} {:.3f} {:.3f} {:.3f}\n", network.name, gbits, ranks, algorithm.name,
             buckets.size(), network.step_seconds * 1e3, sums * 1e3, exposed * 1e3);
}

}  // namespace
}  // namespace lockstep

int main() {
  using namespace lockstep;
  const Network networks[] = {{"tutorial", layers_of("tutorial", 10), 0.028},
                              {"resnet50", resnet50(), 0.1}};
  for (const Network& network : networks) {
    for (const auto& [gbits, latency] : {std::pair(10.0, 20e-6), {100.0, 5e-6}, {400.0, 5e-6}}) {
      for (int ranks = 8; ranks <= 4096; ranks *= 2) predict(network, gbits, latency, ranks);
    }
  }
  return 0;
}
