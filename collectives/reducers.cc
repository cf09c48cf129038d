#include "collectives/reducers.h"

#include <utility>

#include "src/table.h"

namespace lockstep {
namespace {

bool on_one_host(const Comm& comm) { return comm.min(comm.node().size()) == comm.size(); }

std::unique_ptr<Reducer> make_auto_reducer(const ReducerSpec& given) {
  ReducerSpec spec = given;
  if (on_one_host(spec.comm)) {
    spec.why = "all ranks are on one host";
    return make_shared_reducer(spec);
  }
  const AlgorithmEntry& algorithm =
      cheapest_algorithm(spec.comm.size(), spec.buckets, Link());  // an ordinary network
  spec.why = "the cheapest algorithm in canonical order for these buckets";
  return make_scheduled_reducer(algorithm, spec);
}

std::vector<ReducerEntry> make_menu() {
  std::vector<ReducerEntry> menu = {
      {"auto",
       "shared if all ranks are on one host, else the cheapest algorithm in canonical order",
       make_auto_reducer},
      {"shared", "in memory that all ranks of one host see; canonical order", make_shared_reducer},
      {"mpi", "MPI_Iallreduce of the MPI library; order unknown", make_mpi_reducer},
  };
  for (const AlgorithmEntry& algorithm : algorithms()) {
    menu.push_back({algorithm.name, algorithm.about, [&algorithm](const ReducerSpec& spec) {
                      return make_scheduled_reducer(algorithm, spec);
                    }});
  }
  return menu;
}

}  // namespace

std::span<const ReducerEntry> reducers() {
  static const std::vector<ReducerEntry> menu = make_menu();
  return menu;
}

std::unique_ptr<Reducer> make_reducer(std::string_view name, const ReducerSpec& spec) {
  const ReducerEntry* entry = nullptr;
  agree(spec.comm, [&] {
    entry = &find(reducers(), name);
    const Range all{0, spec.count};
    for (const Range& bucket : spec.buckets)
      expect(all.contains(bucket), "a bucket lies outside of the gradients");
  });
  std::unique_ptr<Reducer> reducer = entry->make(spec);
  if (spec.device.memory_is_host()) return reducer;
  return make_staged_reducer(spec, std::move(reducer));
}

std::string describe_ranks(const ReducerSpec& spec) {
  const int size = spec.comm.size();
  return fmt::format("{} rank{}{}{}", size, size == 1 ? "" : "s",
                     spec.why.empty() ? "" : "; chosen because ", spec.why);
}

}  // namespace lockstep
