// Predicts the time of a training step on machines that are not available, from the costs of the
// schedules:
//   cost_model --network tutorial,resnet50
// prints a table with a line for each network, link and number of ranks. bench/plot_predictions.py
// draws it. With --hosts and other options about hosts, it prints one line per network. Each host
// has one rank. The mean rank computes as long as a single rank, so that the global batch grows
// with the ranks. If --shards gives ranks unequal shares, all wait for the largest, and the reducer
// is direct. The all-reduce of a bucket starts when its gradients are ready and the previous bucket
// is done. Time after the end of the backward pass is exposed. The algorithm and the size of
// buckets are those of `auto`.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "apps/options/command_line.h"
#include "collectives/algorithms/algorithms.h"
#include "collectives/buckets.h"
#include "net/model.h"
#include "src/base/check.h"
#include "src/base/table.h"
#include "src/base/text.h"

namespace lockstep {
namespace {

struct Network {
  std::string name;
  std::vector<LayerSummary> layers;  ///< in the order of the forward pass
  double step_seconds;  ///< of a single rank
};

/// Seconds of a step of a single rank, as predictions.md describes.
constexpr std::pair<std::string_view, double> kStepSeconds[] = {{"tutorial", 0.028},
                                                                {"resnet50", 0.1}};

/// A registered model with its own samples. Photos have the 1000 classes of ImageNet. Throws the
/// usage error without `compute_ms` if the time of its step is not known.
Network network_of(const std::string& name, double compute_ms) {
  const auto device = make_cpu_device(1);
  const ModelEntry& entry = find(models(), name);
  const auto known = std::find_if(std::begin(kStepSeconds), std::end(kStepSeconds),
                                  [&](const auto& pair) { return pair.first == name; });
  if (compute_ms == 0 && known == std::end(kStepSeconds))
    fail_usage("--network {} needs the time of its step. Pass --compute-ms.", name);
  const int classes = entry.sample[1] > 100 ? 1000 : 10;
  const Model model(*device, entry, entry.sample, classes, Type::f32, /*training=*/true);
  return {name, model.layers(), compute_ms > 0 ? compute_ms * 1e-3 : known->second};
}

/// The hosts, with one rank each.
struct Machines {
  Link link;
  /// Bytes per second that an otherwise idle core sends and receives; 0: messages cost no
  /// computing.
  double core_rate = 0;
  /// Test hosts may have less than a core each.
  double hosts_per_core = 1;
};

/// Bytes per second that one core adds.
constexpr double kAddRate = 10e9;

/// Seconds of a step. `work`: seconds of computing. ready[n]: the part of `work` after which the
/// gradients of bucket n are ready. sums[n]: seconds of its all-reduce; buckets follow one another.
/// core[n]: the part of sums[n] in which the core does not compute.
double step_seconds(double work, const std::vector<double>& ready, const std::vector<double>& sums,
                    const std::vector<double>& core) {
  // `done` is the computing that is done at time `now`. A sum waits for its gradients, and for the
  // sum before it. While it runs, computing goes on for the part in which the core is free.
  double now = 0, done = 0;
  for (std::size_t n = 0; n < sums.size(); ++n) {
    if (done < ready[n]) {  // only computing
      now += ready[n] - done;
      done = ready[n];
    }
    now += sums[n];
    done = std::min(work, done + std::max(0.0, sums[n] - core[n]));
  }
  return now + work - done;
}

constexpr std::string_view kLine =
    "{:<15} {:>8g} {:>6} {:<19} {:>7} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.1f}\n";
constexpr std::string_view kJson =
    R"({{"network": "{}", "gbit_s": {:g}, "ranks": {}, "algorithm": "{}", "buckets": {}, )"
    R"("compute_ms": {:.3f}, "allreduce_ms": {:.3f}, "exposed_ms": {:.3f}, )"
    R"("efficiency_percent": {:.1f}}})"
    "\n";

/// A line of the table, or of JSON.
void predict(const Network& network, const Machines& machines, const Shares& shares, bool json) {
  const Link& link = machines.link;
  const int ranks = shares.ranks();
  const Roots roots = Roots::of(shares);
  const bool direct = !roots.by_rank();
  // All ranks wait for the one with the largest share, so its time counts.
  const double alone = network.step_seconds * machines.hosts_per_core / balance(shares);
  // A third of the work is the forward pass. Gradients become ready from the last layer on.
  double operations = 0;
  for (const LayerSummary& layer : network.layers) operations += layer.multiply_adds;
  double computed = alone / 3;
  std::vector<Range> parts;
  std::vector<double> part_ready;
  std::int64_t end = 0;
  for (auto layer = network.layers.rbegin(); layer != network.layers.rend(); ++layer) {
    computed += alone * 2 / 3 * layer->multiply_adds / operations;
    if (layer->parameters == 0) continue;
    parts.push_back({end, layer->parameters});
    part_ready.push_back(computed);
    end = parts.back().end();
  }
  const std::int64_t bytes =
      bucket_bytes(ranks, link, end * static_cast<std::int64_t>(sizeof(float)));
  // The trainer sizes and cuts its buckets by the same functions.
  const std::vector<Range> buckets = cut_buckets(parts, bytes);
  const AlgorithmEntry& algorithm = *algorithms_by_cost(ranks, buckets, link).front();
  const double core_rate = machines.core_rate / machines.hosts_per_core / 2;  // in each direction
  std::vector<double> ready, sums, core;
  double all_sums = 0;
  for (const Range& bucket : buckets) {
    // A bucket is ready with the layer that contains its last gradient.
    const auto last = std::find_if(parts.begin(), parts.end(),
                                   [&](const Range& part) { return part.end() >= bucket.end(); });
    ready.push_back(part_ready[last - parts.begin()]);
    const auto seconds = [&](const Link& on) {
      return direct ? cost(roots, bucket.count, on)
                    : cost(algorithm.algorithm, ranks, bucket.count, on);
    };
    sums.push_back(seconds(link));
    core.push_back(core_rate == 0 ? 0 : seconds({0, core_rate, link.add_rate}));
    all_sums += sums.back();
  }
  const double exposed = step_seconds(alone, ready, sums, core) - alone;
  const double gbit = link.bandwidth * 8e-9, percent = 100 * alone / (alone + exposed);
  fmt::print(fmt::runtime(json ? kJson : kLine), network.name, gbit, ranks,
             direct ? "direct" : algorithm.name, buckets.size(), alone * 1e3, all_sums * 1e3,
             exposed * 1e3, percent);
}

/// Two lines: names, and units.
void print_heading() {
  constexpr const char* kColumns = "{:<15} {:>8} {:>6} {:<19} {:>7} {:>10} {:>10} {:>10} {:>10}\n";
  fmt::print(fmt::runtime(kColumns), "network", "link", "ranks", "algorithm", "buckets", "compute",
             "allreduce", "exposed", "efficiency");
  fmt::print(fmt::runtime(kColumns), "(name)", "(Gbit/s)", "(1)", "(name)", "(1)", "(ms)", "(ms)",
             "(ms)", "(%)");
}

struct CostOptions {
  std::string networks = "tutorial,resnet50";
  bool json = false;
  int hosts = 0, shards = 0;
  double compute_ms = 0, gbit = 10, latency_us = 20, core_gb = 0, hosts_per_core = 1;
};

/// False: only print `text`.
bool parse(int argc, char** argv, CostOptions& o, std::string& text) {
  constexpr double kMost = 1e6;  // keeps every product finite
  OptionRows rows;
  rows.group("Options");
  rows.text("--network", o.networks, "NAMES",
            "Names of models from train_cifar --list, with commas");
  rows.flag("--json", o.json, "One JSON object per prediction instead of a table");
  rows.optional_number("--hosts", o.hosts, Bounds::at_least(2, 1 << 16),
                       "Hosts, with one rank each [those of bench/predictions.md]")
      .example("4");
  rows.optional_number("--shards", o.shards, Bounds::at_least(2, 1 << 20),
                       "Shards of the global batch [as many as hosts]")
      .example("24 --hosts 5");
  rows.optional_number("--compute-ms", o.compute_ms, Bounds::above_zero(kLongestTime),
                       "Milliseconds of a step of a single rank [tutorial 28, resnet50 100]")
      .example("20 --network deep_mnist");
  rows.number("--gbit", o.gbit, Bounds::above_zero(kMost), "Bandwidth in Gbit/s, in each direction")
      .example("25 --hosts 4");
  rows.number("--latency-us", o.latency_us, Bounds::above_zero(kLongestTime),
              "Latency of a message in microseconds")
      .example("5 --hosts 4");
  rows.number("--core-gb", o.core_gb, Bounds::at_least(0, kMost),
              "GB/s that an idle core transfers; 0: transfers need no core")
      .example("1.4 --hosts 4");
  rows.number("--hosts-per-core", o.hosts_per_core, Bounds::above_zero(kMost),
              "Test hosts that share a core")
      .example("2 --hosts 4");
  const ProgramText program{"cost_model", "Predicts training steps on machines of any size",
                            "cost_model [OPTIONS]"};
  if (!read_command_line(rows, program, argc, argv, text)) return false;
  for (const char* name : {"--shards", "--gbit", "--latency-us", "--core-gb", "--hosts-per-core"}) {
    if (o.hosts == 0 && rows.at(name).given())
      fail_usage("{} has no effect without --hosts. Pass --hosts.", name);
  }
  return true;
}

int run(const CostOptions& o) {
  std::vector<Network> networks;
  for (const std::string& name : split(o.networks, ','))
    networks.push_back(network_of(name, o.compute_ms));
  if (!o.json) print_heading();
  for (const Network& network : networks) {
    if (o.hosts > 0) {
      const Link link{o.latency_us * 1e-6, o.gbit * 1e9 / 8, kAddRate};
      predict(network, {link, o.core_gb * 1e9, o.hosts_per_core},
              choose_shares(o.shards > 0 ? o.shards : o.hosts, o.hosts), o.json);
      continue;
    }
    for (const auto& [rate, latency] : {std::pair(10.0, 20e-6), {100.0, 5e-6}, {400.0, 5e-6}}) {
      for (int ranks = 8; ranks <= 4096; ranks *= 2)
        predict(network, {{latency, rate * 1e9 / 8, kAddRate}, 0, 1}, choose_shares(ranks, ranks),
                o.json);
    }
  }
  return kExitSuccess;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  CostOptions options;
  return run_without_ranks(
      "cost_model", [&](std::string& answer) { return parse(argc, argv, options = {}, answer); },
      [&] { return run(options); });
}
