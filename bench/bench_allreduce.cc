// The all-reduces of the house and MPI's own, measured: mpirun -np 4 ./bench_allreduce --check
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
  std::string type = "f32", json, plot;
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
  app.add_option("--factor", o.factor, "From one size to the next")->check(CLI::Range(2, 1024));
  app.add_option("--iters", o.timing.iterations, "Of each measurement; 0: about 0.15 s of them")
      ->check(CLI::Range(0, 1000000));
  app.add_option("--type", o.type,
                 "Type of the numbers that cross between ranks. 16 bits: only reducers that round "
                 "(train_cifar --wire). f64: only MPI_Allreduce")
      ->check(CLI::IsMember({"f32", "bf16", "f16", "f64"}));
  app.add_flag("--check", o.timing.check, "Compare all elements of a sum, too");
  app.add_option("--json", o.json, "File for one object per line and measurement");
  app.add_option("--plot", o.plot, "File for an SVG of time and bandwidth over size");
  CLI::Option* explain =
      app.add_option("--explain", o.explain, "Print how an algorithm goes, and measure nothing");
  app.add_option("--draw", o.draw, "Print an SVG of how an algorithm goes instead")
      ->excludes(explain);
  app.add_option("--ranks", o.drawn_ranks, "Of --draw and --explain")->check(CLI::Range(1, 1024));
  app.add_option("--elements", o.drawn_elements, "Of --draw and --explain; 0: 4 per rank")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40));
}

/// The answer to --explain or --draw; empty without them.
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
  CLI::App app("Times the all-reduces of the menu and MPI_Allreduce, size by size",
               "bench_allreduce");
  add_options(app, o);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    text = app.help();
    return false;
  } catch (const CLI::ParseError& error) {
    fail_usage("{}; --help lists all options", error.what());
  }
  text = drawing(app, o);
  if (!text.empty()) return false;
  o.timing.type = o.type == "bf16" ? Type::bf16 : o.type == "f16" ? Type::f16 : Type::f32;
  o.timing.doubles = o.type == "f64";
  o.json = home_path("--json", o.json);
  o.plot = home_path("--plot", o.plot);
  if (!o.json.empty() && o.json == o.plot)
    fail_usage("--json and --plot are one file, {}. Name two files.", o.json);
  if (o.most < o.least)
    fail_usage("--max {} is less than --min {}. Pass a larger --max.", o.most, o.least);
  for (const std::string& name : o.reducers) {
    if (name == "all" || name == kPeer) continue;
    const ReducerEntry& entry = find_reducer(name);
    if (o.timing.doubles)
      fail_usage("--reducers {}: it sums fp32: leave --type f64 or --reducers out", name);
    if (o.timing.type != Type::f32 && !entry.rounds) {
      fail_usage("--reducers {}: its messages are of fp32: leave --type {} out, or choose direct",
                 name, o.type);
    }
  }
  return true;
}

/// The names to measure, kPeer among them. Of "all" those that cannot run here are left out, and
/// said.
std::vector<std::string> names_of(const Comm& comm, const BenchOptions& o) {
  if (o.timing.doubles) {
    if (comm.rank() == 0) fmt::print("left out: the reducers, which sum fp32\n");
    return {kPeer};
  }
  std::vector<std::string> names;
  const auto add = [&](std::string name) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(std::move(name));
  };
  // Whether numbers of the type cross between ranks here; an AgreedError where it cannot run.
  const auto crosses = [&](std::string_view name) {
    const auto device = make_cpu_device(1);
    ReducerSpec spec{comm.duplicate(), *device, 16, {{0, 1}}};
    spec.wire = o.timing.type;
    const bool canonical = make_reducer(name, spec)->traits().canonical;
    return spec.wire == Type::f32 || !canonical;
  };
  for (const std::string& asked : o.reducers) {
    if (asked != "all") {
      const bool serves = o.timing.type == Type::f32 || asked == kPeer || crosses(asked);
      agree(comm, [&] {
        if (serves) return;
        fail_usage(
            "--reducers {}: it sends nothing here that --type {} could shorten: leave one of "
            "them out, or choose direct",
            asked, o.type);
      });
      add(asked);
      continue;
    }
    for (const ReducerEntry& entry : reducers()) {
      if (entry.name == "auto" || entry.on_device) continue;
      try {
        if (crosses(entry.name)) {
          add(std::string(entry.name));
        } else if (comm.rank() == 0) {
          fmt::print("left out: {} sends nothing here\n", entry.name);
        }
      } catch (const AgreedError& error) {
        if (comm.rank() == 0) fmt::print("left out: {}\n", error.what());
      }
    }
  }
  add(kPeer);
  return names;
}

int run(const World& world, const BenchOptions& o) {
  const Comm comm = world.comm();
  Record& record = world.flight_recorder().mine();
  const bool speaks = comm.rank() == 0;
  agree(comm, [&] {
    for (const std::string& path : {o.json, o.plot}) {
      if (speaks && !path.empty()) require_replaceable(path);  // before all is measured
    }
  });
  record.phase("looking at what can run here");
  const std::vector<std::string> names = names_of(comm, o);
  record.phase("measuring the bound");
  const AllreduceBound bound(comm);
  const std::string where = counted(comm.size(), "rank") + " on " + counted(bound.hosts(), "host");
  if (speaks) {
    fmt::print("{}; times of the slowest rank; GB/s; bound: {}\n{}\n", where, bound.describe(),
               table_heading());
  }
  std::vector<AllreduceRow> rows;
  std::string json;
  std::int64_t wrong = 0;
  for (std::uint64_t size = o.least; size <= o.most; size *= static_cast<std::uint64_t>(o.factor)) {
    const auto bytes = static_cast<std::int64_t>(
        round_up(size, std::max<std::uint64_t>(4, o.timing.element_bytes())));
    const std::optional<double> least = bound(bytes, o.timing.type);
    for (const std::string& name : names) {
      record.phase(fmt::format("{} of {} bytes", name, bytes));
      AllreduceRow& row = rows.emplace_back(time_allreduce(comm, name, bytes, o.timing));
      row.bound_us = least;
      wrong += row.wrong.value_or(0);
      json += json_line(row, comm.size()) + "\n";
      if (speaks) fmt::print("{}\n", table_line(row, comm.size()));
      if (speaks) std::fflush(stdout);
    }
  }
  agree(comm, [&] {
    if (!speaks) return;
    fmt::print("\n{}", crossover_table(rows, kPeer));
    if (!o.json.empty()) replace_file(o.json, json);
    if (!o.plot.empty()) replace_file(o.plot, plot(rows, comm.size(), "all-reduce, " + where));
    require(wrong == 0, "{} elements are not the sum", wrong);
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
