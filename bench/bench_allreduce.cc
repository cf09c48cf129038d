// Times Lockstep's all-reduces and MPI's own: mpirun -np 4 ./bench_allreduce --check
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "apps/options/command_line.h"
#include "apps/options/help.h"
#include "bench/allreduce_report.h"
#include "bench/allreduce_timing.h"
#include "bench/schedule_drawing.h"
#include "collectives/algorithms/algorithms.h"
#include "collectives/comm/flight_recorder.h"
#include "collectives/reducer.h"
#include "src/base/plural.h"
#include "src/base/round_up.h"
#include "src/base/table.h"
#include "src/files/file.h"

namespace lockstep {
namespace {

struct BenchOptions {
  std::vector<std::string> reducers{"all"};
  std::uint64_t least = 4, most = 64 << 20;
  int factor = 4;
  TimingOptions timing;
  std::string type = "f32", json;
  std::string draw, explain;
  int drawn_ranks = 4;
  std::int64_t drawn_elements = 0;
};

void add_options(CLI::App& app, BenchOptions& o) {
  app.option_defaults()->always_capture_default();
  app.add_option("--reducers", o.reducers, "Names from train_cifar --list, or all")->delimiter(',');
  const CLI::AsSizeValue size(false);
  const CLI::Range bytes(std::uint64_t{4}, std::uint64_t{1} << 32);
  app.add_option("--min", o.least, "Bytes of the shortest buffer, such as 4 or 64K")
      ->transform(size)
      ->check(bytes);
  app.add_option("--max", o.most, "Bytes of the longest buffer, such as 64M")
      ->transform(size)
      ->check(bytes);
  app.add_option("--factor", o.factor, "Ratio of one size to the next")->check(CLI::Range(2, 1024));
  app.add_option("--iters", o.timing.iterations, "Iterations per measurement; 0: about 0.15 s")
      ->check(CLI::Range(0, 1000000));
  app.add_option("--type", o.type, "Type of the numbers in messages (train_cifar --wire)")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  app.add_flag("--check", o.timing.check, "Compare all elements of one sum");
  app.add_option("--json", o.json, "File with one JSON object per measurement");
  CLI::Option* explain =
      app.add_option("--explain", o.explain, "Algorithm to print in words, without measurements");
  app.add_option("--draw", o.draw, "Algorithm to print as SVG, without measurements")
      ->excludes(explain);
  app.add_option("--ranks", o.drawn_ranks, "Ranks for --draw and --explain")
      ->check(CLI::Range(1, 1024));
  app.add_option("--elements", o.drawn_elements, "Elements for --draw and --explain; 0: 4 per rank")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40));
}

/// The output of --explain or --draw; empty without them.
std::string drawing(const CLI::App& app, const BenchOptions& o) {
  const std::int64_t elements = o.drawn_elements > 0 ? o.drawn_elements : 4 * o.drawn_ranks;
  if (!o.explain.empty()) return explain(find(algorithms(), o.explain), o.drawn_ranks, elements);
  if (!o.draw.empty()) return draw(find(algorithms(), o.draw), o.drawn_ranks, elements);
  for (const char* name : {"--ranks", "--elements"}) {
    if (app.count(name) > 0) fail_usage("{} needs --draw or --explain. Pass one of them.", name);
  }
  return "";
}

bool parse(int argc, char** argv, BenchOptions& o, std::string& text) {
  CLI::App app("Times Lockstep's all-reduces and MPI_Allreduce by size", "bench_allreduce");
  add_options(app, o);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    text = app.help();
    return false;
  } catch (const CLI::ParseError& error) {
    fail_usage("{}. Pass --help for a list.", error.what());
  }
  text = drawing(app, o);
  if (!text.empty()) return false;
  o.timing.type = o.type == "bf16" ? Type::bf16 : o.type == "f16" ? Type::f16 : Type::f32;
  o.json = home_path("--json", o.json);
  if (o.most < o.least)
    fail_usage("--max {} is less than --min {}. Pass a larger --max.", o.most, o.least);
  for (const std::string& name : o.reducers)
    if (name != "all" && name != kPeer) find_reducer(name);
  return true;
}

/// Why the reducer `name` cannot be measured here; empty if it can. Collective.
std::string refusal(const Comm& comm, std::string_view name, Type type) {
  if (name == kPeer) return type == Type::f32 ? "" : "it adds only fp32.";
  try {
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
      if (name == "all" && entry.name != "auto" && !entry.on_device) asked.emplace_back(entry.name);
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
    if (!why.empty() && comm.rank() == 0) fmt::print("left out: {}: {}\n", name, why);
  }
  return names;
}

int run(const World& world, const BenchOptions& o) {
  const Comm comm = world.comm();
  Record& record = world.flight_recorder().mine();
  const bool prints = comm.rank() == 0;
  agree(comm, [&] {
    if (prints && !o.json.empty()) require_replaceable(o.json);  // before all is measured
  });
  record.phase("choosing the reducers to measure");
  const std::vector<std::string> names = names_of(comm, o);
  record.phase("measuring the bound");
  const AllreduceBound bound(comm);
  if (prints) {
    fmt::print("{} on {}; times of the slowest rank; GB/s; bound: {}\n{}\n",
               counted(comm.size(), "rank"), counted(bound.hosts(), "host"), bound.describe(),
               table_heading());
  }
  std::vector<AllreduceRow> rows;
  std::string json;
  std::int64_t wrong = 0;
  for (std::uint64_t size = o.least; size <= o.most; size *= static_cast<std::uint64_t>(o.factor)) {
    const auto bytes = static_cast<std::int64_t>(round_up(size, std::uint64_t{4}));
    const std::optional<double> least = bound(bytes, o.timing.type);
    for (const std::string& name : names) {
      record.phase(fmt::format("{} of {} bytes", name, bytes));
      AllreduceRow& row = rows.emplace_back(time_allreduce(comm, name, bytes, o.timing));
      row.bound_us = least;
      wrong += row.wrong.value_or(0);
      json += json_line(row, comm.size()) + "\n";
      if (prints) fmt::print("{}\n", table_line(row, comm.size()));
      if (prints) std::fflush(stdout);
    }
  }
  agree(comm, [&] {
    if (!prints) return;
    fmt::print("\n{}", crossover_table(rows, kPeer));
    if (!o.json.empty()) replace_file(o.json, json);
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
