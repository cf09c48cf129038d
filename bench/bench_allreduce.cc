// Times Lockstep's all-reduces and MPI's own: mpirun -np 4 ./bench_allreduce --check
#include <algorithm>
#include <cstdio>

#include "apps/options/command_line.h"
#include "apps/options/help.h"
#include "bench/allreduce.h"
#include "collectives/comm/flight_recorder.h"
#include "collectives/reducer.h"
#include "src/base/plural.h"
#include "src/base/round_up.h"
#include "src/base/text.h"

namespace lockstep {
namespace {

struct BenchOptions {
  std::string names = "all";
  std::vector<std::string> reducers;  ///< `names`, one by one
  std::uint64_t least = 4, most = 64 << 20;
  int factor = 4;
  TimingOptions timing;
  bool json = false;
};

constexpr std::string_view kUnits = "KMG";
constexpr double kMostIterations = 1000000;

/// The short names of nccl-tests.
constexpr std::pair<std::string_view, const char*> kShortNames[] = {
    {"-b", "--min"}, {"-e", "--max"}, {"-f", "--factor"}, {"-n", "--iters"}, {"-w", "--warmup"}};

/// "4" and "64K" as bytes: at least 4 and at most 4G. Throws the usage error.
std::uint64_t parse_size(const std::string& name, const std::string& text) {
  const std::size_t unit = kUnits.find(text.back());
  const std::uint64_t scale = unit == kUnits.npos ? 1 : std::uint64_t{1024} << (10 * unit);
  const Bounds bounds = Bounds::at_least(scale == 1 ? 4 : 1, 0x1p32 / static_cast<double>(scale));
  try {
    return scale *
           parse_number<std::uint64_t>("", text.substr(0, text.size() - (scale > 1)), bounds);
  } catch (const Error&) {
    fail_usage("{}: \"{}\" is not a size. Pass one from 4 to 4G, such as 64K or 1M.", name, text);
  }
}

std::string size_text(std::uint64_t bytes) {
  std::size_t unit = 0;
  for (; unit < kUnits.size() && bytes % 1024 == 0; ++unit) bytes /= 1024;
  return fmt::format("{}{}", bytes, unit == 0 ? "" : kUnits.substr(unit - 1, 1));
}

void declare(OptionRows& rows, BenchOptions& o) {
  const auto size = [&](const std::string& name, std::uint64_t& value, const char* about) {
    rows.add(
        name, OptionRow::Type::word,
        [=, &value](const std::string& text) { value = parse_size(name, text); },
        [&value] { return size_text(value); }, "SIZE", about);
  };
  rows.group("Options");
  rows.text("--reducers", o.names, "NAMES", "Names from train_cifar --list with commas, or all");
  size("--min", o.least, "Bytes of the shortest buffer, or -b: 4, 64K, 1M; at most 4G");
  size("--max", o.most, "Bytes of the longest buffer, or -e: 4, 64K, 1M; at most 4G");
  rows.number("--factor", o.factor, Bounds::at_least(2, 1024),
              "Ratio of one size to the next, or -f");
  rows.number("--iters", o.timing.iterations, Bounds::at_least(0, kMostIterations),
              "Iterations per measurement, or -n; 0: about 0.15 s")
      .example("20");
  rows.number("--warmup", o.timing.warmup, Bounds::at_least(0, kMostIterations),
              "Iterations before each measurement, or -w");
  rows.type("--type", o.timing.type, "Type of the numbers in messages: fp32, bf16 or fp16",
            {"fp32", "bf16", "fp16"});
  rows.flag("--check", o.timing.check, "Comparison of all elements of one sum");
  rows.flag("--json", o.json, "One JSON object per measurement instead of a table");
}

bool parse(int argc, char** argv, BenchOptions& o, std::string& text) {
  OptionRows rows;
  declare(rows, o);
  std::vector<char*> words(argv, argv + argc);
  for (char*& word : words) {
    for (const auto& [short_name, name] : kShortNames)
      if (word == short_name) word = const_cast<char*>(name);
  }
  const ProgramText program{"bench_allreduce",
                            "Times Lockstep's all-reduces and MPI_Allreduce by size",
                            "mpirun -np 4 bench_allreduce [OPTIONS]"};
  if (!read_command_line(rows, program, argc, words.data(), text)) return false;
  if (o.most < o.least)
    fail_usage("--max {} is less than --min {}. Pass a larger --max.", size_text(o.most),
               size_text(o.least));
  o.reducers = split(o.names, ',');
  for (const std::string& name : o.reducers)
    if (name != "all" && name != kPeer) find_reducer(name);
  return true;
}

/// Why the reducer `name` cannot be measured here; empty if it can. Collective.
std::string refusal(const Comm& comm, std::string_view name, Type type) {
  if (name == kPeer) return type == Type::f32 ? "" : "it adds only fp32.";
  try {
    // Only an attempt shows it: a reducer tests hosts and libraries when it is made. One element is
    // enough.
    const auto device = make_cpu_device(1);
    ReducerSpec spec{comm.duplicate(), *device, 16, {{0, 1}}};
    spec.wire = type;
    const bool rounds = !make_reducer(name, spec)->traits().canonical;
    if (type == Type::f32 || rounds) return "";
    return fmt::format("{} sends nothing that --type {} shortens. Pass --reducers direct.", name,
                       name_of(type));
  } catch (const AgreedError& error) {
    return error.what();
  }
}

/// The names to measure, and kPeer in fp32. "all" leaves out reducers that cannot run here, and
/// prints them.
std::vector<std::string> names_of(const Comm& comm, const BenchOptions& o) {
  std::vector<std::string> asked, names;
  for (const std::string& name : o.reducers) {
    if (name != "all") asked.push_back(name);
    for (const ReducerEntry& entry : reducers())
      if (name == "all" && !entry.on_device) asked.emplace_back(entry.name);
  }
  if (o.timing.type == Type::f32) asked.emplace_back(kPeer);
  const bool all = std::find(o.reducers.begin(), o.reducers.end(), "all") != o.reducers.end();
  for (const std::string& name : asked) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const std::string why = refusal(comm, name, o.timing.type);
    agree(comm, [&] {
      if (!all && !why.empty()) fail_usage("--reducers {}: {}", name, why);
    });
    if (why.empty()) names.push_back(name);
    if (!why.empty() && comm.rank() == 0)
      fmt::print(stderr, "bench_allreduce: note: {} is left out. {}\n", name, why);
  }
  return names;
}

int run(const World& world, const BenchOptions& o) {
  const Comm comm = world.comm();
  RankRecorder& recorder = world.flight_recorder().mine();
  const bool prints = comm.rank() == 0, table = prints && !o.json;
  recorder.phase("choosing the reducers to measure");
  const std::vector<std::string> names = names_of(comm, o);
  recorder.phase("measuring the bound");
  const AllreduceBound bound(comm);
  if (table) {
    fmt::print("{} on {}, sums of {}; times of the slowest rank; bound: {}\n{}\n",
               counted(comm.size(), "rank"), counted(bound.hosts(), "host"), name_of(o.timing.type),
               bound.describe(), table_heading());
  }
  std::vector<AllreduceRow> rows;
  std::int64_t wrong = 0;
  for (std::uint64_t size = o.least; size <= o.most; size *= static_cast<std::uint64_t>(o.factor)) {
    const auto bytes = static_cast<std::int64_t>(round_up(size, std::uint64_t{4}));
    const std::optional<double> least = bound(bytes, o.timing.type);
    for (const std::string& name : names) {
      recorder.phase(fmt::format("{} of {} bytes", name, bytes));
      AllreduceRow& row = rows.emplace_back(time_allreduce(comm, name, bytes, o.timing));
      row.bound_us = least;
      wrong += row.wrong.value_or(0);
      if (!prints) continue;
      fmt::print("{}\n", table ? table_line(row, comm.size()) : json_line(row, comm.size()));
      std::fflush(stdout);
    }
  }
  agree(comm, [&] {
    if (table) fmt::print("\n{}", results_text(rows, comm.size()));
    require(wrong == 0, "{} elements are not the sum. Report this with the command.", wrong);
  });
  return kExitSuccess;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  BenchOptions options;
  return run_or_print_help(
      argc, argv, "bench_allreduce",
      [&](std::string& answer) { return parse(argc, argv, options = {}, answer); },
      [&](World& world) { return run(world, options); });
}
