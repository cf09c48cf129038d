// The joints that all-reduces are made of: adding, waiting for each other, one message, and what a
// bucket costs besides its bytes. Each time is that of the slowest rank, the median of all.
//
//   mpirun -np 2 ./bench_joints --joints bucket,message
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "apps/options/help.h"
#include "collectives/buckets.h"
#include "collectives/comm/flight_recorder.h"
#include "collectives/exchange.h"
#include "collectives/node/node_cores.h"
#include "collectives/node/node_memory.h"
#include "collectives/node/shared_counter.h"
#include "collectives/reducer.h"
#include "collectives/schedule_run.h"
#include "collectives/sum.h"
#include "collectives/world.h"
#include "src/base/clock.h"

namespace lockstep {
namespace {

struct JointBench {
  const World& world;
  Comm comm = world.comm();
  std::vector<std::string> joints;
  int times = 500;

  bool wants(const std::string& name) const {
    return joints.empty() || std::find(joints.begin(), joints.end(), name) != joints.end();
  }
  /// `call` once, and `times` times after a barrier each. Prints the median, and the rate if a call
  /// is of `bytes`.
  void time(const std::string& name, std::int64_t bytes, const std::function<void()>& call) const {
    world.flight_recorder().mine().phase("measuring " + name);
    call();
    std::vector<double> us;
    for (int i = 0; i < times; ++i) {
      comm.barrier();
      const std::int64_t began = now_ns();
      call();
      us.push_back(static_cast<double>(comm.max(now_ns() - began)) * 1e-3);
    }
    std::sort(us.begin(), us.end());
    const double median = us[us.size() / 2];
    if (comm.rank() > 0) return;
    fmt::print("{:<20}{:>12.3f}{:>12}\n", name, median,
               bytes > 0 ? fmt::format("{:.3f}", static_cast<double>(bytes) / median * 1e-3) : "-");
    std::fflush(stdout);
  }
};

/// As many arrays as there are ranks, in memory of this rank only: the cost of one part.
void sum(const JointBench& bench, std::int64_t kib) {
  const std::int64_t count = kib * 256 / bench.comm.size();
  std::vector<std::vector<float>> arrays(bench.comm.size(), std::vector<float>(count, 1));
  std::vector<float*> parts;
  for (std::vector<float>& array : arrays) parts.push_back(array.data());
  bench.time(fmt::format("sum/{}KiB", kib), kib << 10, [&] { sum_canonically(parts, count); });
}

/// All ranks of the host arrive, and see that all have.
void counter(const JointBench& bench) {
  const Comm node = bench.comm.node();
  const NodeMemory memory(bench.comm, node, sizeof(SharedCounter), "the benchmark");
  auto& counter = *reinterpret_cast<SharedCounter*>(memory.data());
  const Patience patience = Patience::of(node.size(), node_cores(node).all);
  std::uint32_t mark = 0;
  bench.time("counter", 0, [&] {
    mark += static_cast<std::uint32_t>(node.size());
    counter.add(1);
    while (!counter.reached(mark)) counter.wait(mark, patience);
  });
}

/// One round of a schedule: to the next rank, from the previous one.
void message(const JointBench& bench, std::int64_t bytes) {
  const Comm& comm = bench.comm;
  const std::int64_t count = bytes / static_cast<std::int64_t>(sizeof(float));
  const int next = (comm.rank() + 1) % comm.size();
  const int previous = (comm.rank() + comm.size() - 1) % comm.size();
  const Schedule schedule{
      count, count, {{{Verb::send, next, {0, count}}, {Verb::copy, previous, {count, count}}}}};
  ScheduleRun run(comm.duplicate(), schedule, chunk_for(comm), 0);
  std::vector<float> bucket(count, 1);
  bench.time(fmt::format("message/{}", bytes), bytes, [&] {
    run.start(bucket.data());
    while (run.advance(/*wait=*/true)) continue;
  });
}

/// A step of so many buckets of a cache line each, all ready at once: their bytes are nothing.
void buckets(const JointBench& bench, const PolicyEntry& policy, int number) {
  const auto device = make_cpu_device(1);
  const auto stream = device->stream();
  std::vector<Range> ranges;
  for (int i = 0; i < number; ++i) ranges.push_back({i * kLineFloats, kLineFloats});
  const Range all{0, kLineFloats * number};
  const auto reducer =
      make_reducer("auto", ReducerSpec{bench.comm.duplicate(), *device, all.count, ranges});
  GradientBuckets gradients(*reducer, ranges, *policy.policy, [](int, Range) {});
  bench.time(fmt::format("bucket/{}/{}", policy.name, number), 0, [&] {
    gradients.ready(all, *stream);
    gradients.finish();
  });
}

int run(const JointBench& bench) {
  if (bench.comm.rank() == 0) fmt::print("{:<20}{:>12}{:>12}\n", "joint", "median us", "GB/s");
  for (const std::int64_t kib : {4, 64, 1024})
    if (bench.wants("sum")) sum(bench, kib);
  if (bench.wants("barrier")) bench.time("barrier", 0, [&] { bench.comm.barrier(); });
  if (bench.wants("counter")) counter(bench);
  for (const std::int64_t bytes : {64, 4 << 10, 64 << 10, 1 << 20})
    if (bench.wants("message") && bench.comm.size() > 1) message(bench, bytes);
  for (const int number : {1, 64}) {
    for (const PolicyEntry& entry : policies()) {
      if (!bench.wants("bucket") || !entry.policy || *entry.policy == Policy::stream) continue;
      if (*entry.policy == Policy::thread && !bench.world.threads_allowed()) continue;
      buckets(bench, entry, number);
    }
  }
  return kExitSuccess;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  std::vector<std::string> joints;
  int times = 500;
  const auto parse = [&](std::string& answer) {
    CLI::App app("Times the joints of all-reduces between ranks", "bench_joints");
    joints.clear();
    app.add_option("--joints", joints, "sum, barrier, counter, message or bucket [all]")
        ->delimiter(',')
        ->check(CLI::IsMember({"sum", "barrier", "counter", "message", "bucket"}));
    app.add_option("--iters", times, "Iterations of each")->check(CLI::Range(1, 1000000));
    try {
      app.parse(argc, argv);
      return true;
    } catch (const CLI::CallForHelp&) {
      answer = app.help();
      return false;
    } catch (const CLI::ParseError& error) {
      fail_usage("{}; --help lists all options", error.what());
    }
  };
  return run_or_print_help(argc, argv, "bench_joints", parse, [&](World& world) {
    expect_same(world.comm(), "options of the ranks",
                fmt::format("--joints = {}\n--iters = {}\n", fmt::join(joints, ","), times));
    return run({.world = world, .joints = joints, .times = times});
  });
}
