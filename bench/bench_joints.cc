// Google Benchmark over the joints that all-reduces are made of: adding, waiting for each other,
// one message, and what a bucket costs besides its bytes.
//
//   mpirun -np 2 ./bench_joints --benchmark_filter=bucket    each time is that of the slowest rank
//
// All ranks do the same iterations, a fixed number of them; rank 0 tells.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "apps/options/help.h"
#include "bench/google_options.h"
#include "collectives/buckets.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/flight_recorder.h"
#include "collectives/exchange.h"
#include "collectives/node/node_cores.h"
#include "collectives/node/node_memory.h"
#include "collectives/node/shared_counter.h"
#include "collectives/reducer.h"
#include "collectives/run.h"
#include "collectives/sum.h"
#include "src/base/clock.h"
#include "src/files/file.h"

namespace lockstep {
namespace {

constexpr int kTimes = 2000;

/// `call` once, and once for each iteration, after a barrier: the time of the slowest rank.
/// `bytes`: of a call.
void time(benchmark::State& state, const Comm& comm, std::int64_t bytes,
          const std::function<void()>& call) {
  call();
  for (auto _ : state) {
    comm.barrier();
    const std::int64_t began = now_ns();
    call();
    state.SetIterationTime(static_cast<double>(comm.max(now_ns() - began)) * 1e-9);
  }
  if (bytes > 0) state.SetBytesProcessed(state.iterations() * bytes);
}

using Joint = std::function<void(benchmark::State&)>;
void add_joint(const std::string& name, int times, Joint joint) {
  benchmark::RegisterBenchmark(name.c_str(), std::move(joint))
      ->UseManualTime()
      ->Iterations(times)
      ->Unit(benchmark::kMicrosecond);
}

/// As many arrays as there are ranks, in memory of this rank alone: what one slice costs.
void sum(benchmark::State& state, const Comm& comm, std::int64_t count) {
  std::vector<std::vector<float>> arrays(static_cast<std::size_t>(comm.size()),
                                         std::vector<float>(static_cast<std::size_t>(count), 1));
  std::vector<float*> parts;
  for (std::vector<float>& array : arrays) parts.push_back(array.data());
  time(state, comm, count * std::int64_t{sizeof(float)} * comm.size(),
       [&] { sum_canonically(parts, count); });
}

/// All ranks of the host arrive, and see that all have.
void counter(benchmark::State& state, const Comm& comm, const Comm& node) {
  const NodeMemory memory(comm, node, sizeof(SharedCounter), "the benchmark");
  auto& counter = *reinterpret_cast<SharedCounter*>(memory.data());
  const Patience patience = Patience::of(node.size(), node_cores(node).all);
  std::uint32_t mark = 0;
  time(state, comm, 0, [&] {
    mark += static_cast<std::uint32_t>(node.size());
    counter.add(1);
    while (!counter.reached(mark)) counter.wait(mark, patience);
  });
}

/// One round of a schedule: to the next rank, from the previous one.
void message(benchmark::State& state, const Comm& comm, std::int64_t count) {
  const int next = (comm.rank() + 1) % comm.size();
  const int previous = (comm.rank() + comm.size() - 1) % comm.size();
  const Schedule schedule{
      count, count, {{{Verb::send, next, {0, count}}, {Verb::copy, previous, {count, count}}}}};
  Run run(comm.duplicate(), schedule, piece_for(comm), 0);
  std::vector<float> bucket(static_cast<std::size_t>(count), 1);
  time(state, comm, count * std::int64_t{sizeof(float)}, [&] {
    run.start(bucket.data());
    while (run.advance(/*wait=*/true)) continue;
  });
}

/// A step of so many buckets of a cache line each, all ready at once: their bytes are nothing.
void buckets(benchmark::State& state, const Comm& comm, Policy policy, int number) {
  const auto device = make_cpu_device(1);
  const auto stream = device->stream();
  constexpr std::int64_t kEach = 16;
  std::vector<Range> ranges;
  for (int i = 0; i < number; ++i) ranges.push_back({i * kEach, kEach});
  const auto reducer =
      make_reducer("auto", ReducerSpec{comm.duplicate(), *device, kEach * number, ranges});
  GradientBuckets gradients(*reducer, ranges, policy, [](int, Range) {});
  time(state, comm, 0, [&] {
    gradients.ready({0, kEach * number}, *stream);
    gradients.finish();
  });
}

void add_joints(const World& world) {
  const Comm comm = world.comm(), node = comm.node();
  for (const std::int64_t kib : {4, 64, 1024}) {
    add_joint(fmt::format("sum/{}KiB", kib), kTimes / 4,
              [=](benchmark::State& state) { sum(state, comm, kib * 256 / comm.size()); });
  }
  add_joint("barrier", kTimes,
            [=](benchmark::State& state) { time(state, comm, 0, [&] { comm.barrier(); }); });
  add_joint("counter", kTimes, [=](benchmark::State& state) { counter(state, comm, node); });
  for (const std::int64_t bytes : {64, 4 << 10, 64 << 10, 1 << 20}) {
    if (comm.size() == 1) break;
    add_joint(fmt::format("message/{}", bytes), kTimes / 4, [=](benchmark::State& state) {
      message(state, comm, bytes / std::int64_t{sizeof(float)});
    });
  }
  for (const int number : {1, 64}) {
    for (const PolicyEntry& entry : policies()) {
      if (!entry.policy || *entry.policy == Policy::stream) continue;
      if (*entry.policy == Policy::thread && !world.threads_allowed()) continue;
      add_joint(fmt::format("bucket/{}/{}", entry.name, number), kTimes / 4,
                [=, policy = *entry.policy](benchmark::State& state) {
                  buckets(state, comm, policy, number);
                });
    }
  }
}

/// For ranks that do not tell.
class Silent : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

bool parse(int argc, char** argv, std::string& text) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--help" || option == "-h") {
      text =
          "Times the joints of all-reduces between ranks: mpirun -np 2 bench_joints [OPTIONS]\n\n"
          "  --benchmark_filter=REGEX    those alone: sum, barrier, counter, message, bucket\n"
          "  --benchmark_format=json     or console, csv\n"
          "  --benchmark_list_tests      what there is\n"
          "and Google Benchmark's other options. Times are those of the slowest rank.\n";
      return false;
    }
    if (!option.starts_with("--benchmark_"))
      fail_usage("{} is no option of Google Benchmark; --help lists some", option);
    check_google_option(option);
  }
  return true;
}

/// One to a line, with what the environment says to Google Benchmark.
std::string what_is_asked(int argc, char** argv) {
  std::string text;
  for (int i = 1; i < argc; ++i) text += fmt::format("{}\n", argv[i]);
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::string_view(*variable).starts_with("BENCHMARK_"))
      text += fmt::format("{}\n", *variable);
  }
  return text;
}

int run(const World& world, int argc, char** argv) {
  const Comm comm = world.comm();
  const bool tells = comm.rank() == 0;
  expect_same(comm, "options of the ranks", what_is_asked(argc, argv));
  std::vector<std::string> words(argv, argv + argc);
  agree(comm, [&] {
    constexpr std::string_view kOut = "--benchmark_out=";
    for (const std::string& word : words) {
      if (tells && word.starts_with(kOut)) require_replaceable(word.substr(kOut.size()));
    }
  });
  // mpirun's pipe looks like a terminal, but colours may be asked for. All ranks take the same way.
  words.insert(words.begin() + 1, "--benchmark_color=false");
  words.emplace_back("--benchmark_enable_random_interleaving=false");
  if (!tells) words.emplace_back("--benchmark_out=");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  agree(comm, [&] {
    if (count > 1) fail_usage("{} is not understood by Google Benchmark", arguments[1]);
  });
  add_joints(world);
  world.flight_recorder().mine().phase("measuring joints");
  std::ostream nowhere(nullptr);
  Silent silent;
  silent.SetOutputStream(&nowhere);
  silent.SetErrorStream(&nowhere);
  const std::size_t found =
      tells ? benchmark::RunSpecifiedBenchmarks() : benchmark::RunSpecifiedBenchmarks(&silent);
  benchmark::ClearRegisteredBenchmarks();  // they hold communicators
  return found > 0 ? kExitSuccess : kExitUsage;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  return run_or_print_help(
      argc, argv, "bench_joints", [&](std::string& answer) { return parse(argc, argv, answer); },
      [&](World& world) { return run(world, argc, argv); });
}
