// The speed of the loader on a folder of photos, in images/s of a core: ./bench_loader --data
// PHOTOS
//
// bench/peers/photo_loaders.py measures SPDL and torchvision's DataLoader.

#include <algorithm>
#include <ctime>

#include "apps/options/command_line.h"
#include "apps/options/help.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/table.h"
#include "src/data/data_options.h"
#include "src/data/loader.h"

namespace lockstep {
namespace {

struct BenchOptions {
  double seconds = 3;
  bool json = false;
  DataOptions data;
};

/// Images per second of processor time of all threads, which other programs on the machine change
/// little.
double loader_rate(const Dataset& photos, const BenchOptions& o) {
  constexpr std::int64_t kBatch = 64;
  HostLoader loader(photos, {.seed = 1,
                             .global_batch = kBatch,
                             .workers = std::max(1, o.data.workers),
                             .pixels = o.data.pixels,
                             .mixing = o.data.mixing});
  for (int i = 0; i < 8; ++i) loader.next();  // those that were prepared ahead
  const double start = now_seconds();
  const std::clock_t begin = std::clock();
  std::int64_t count = 0;
  for (; now_seconds() - start < o.seconds; count += kBatch) loader.next();
  return static_cast<double>(count) * CLOCKS_PER_SEC / static_cast<double>(std::clock() - begin);
}

/// False: only print `text`.
bool parse(int argc, char** argv, BenchOptions& o, std::string& text) {
  OptionRows rows;
  rows.group("Benchmark");
  rows.number("--seconds", o.seconds, Bounds::above_zero(3600), "Duration of the measurement");
  rows.flag("--json", o.json, "One line of JSON instead of a table");
  o.data.images.size = 224;
  o.data.declare(rows, find(datasets(), "folder"));
  rows.at("--dataset").example("folder");
  const ProgramText program{"bench_loader", "Times the loader of photos",
                            "bench_loader --data DIR [OPTIONS]"};
  if (!read_command_line(rows, program, argc, argv, text)) return false;
  if (o.data.place.folders.empty()) fail_usage("bench_loader needs photos. Pass --data DIR.");
  return true;
}

int run(const BenchOptions& o) {
  const DataSource source = o.data.source(1);
  const OpenedData pair =
      find(datasets(), o.data.dataset.empty() ? "folder" : o.data.dataset).open(source);
  const double loader = loader_rate(*pair.train, o);
  if (o.json)
    fmt::print("{{\"edge\": {}, \"loader\": {:.1f}}}\n", source.images.size, loader);
  else
    fmt::print("loader at {}: {:.0f} images/s of a core\n", source.images.size, loader);
  return kExitSuccess;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  BenchOptions options;
  return run_without_ranks(
      "bench_loader", [&](std::string& answer) { return parse(argc, argv, options = {}, answer); },
      [&] { return run(options); });
}
