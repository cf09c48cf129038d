#include "collectives/reducers.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

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
  return entry->make(spec);
}

std::unique_ptr<float[], void (*)(float*)> allocate_gradients(std::int64_t count) {
  constexpr std::size_t kPage = 4096;
  const std::size_t bytes =
      (static_cast<std::size_t>(std::max<std::int64_t>(count, 1)) * sizeof(float) + kPage - 1) /
      kPage * kPage;
  void* memory = std::aligned_alloc(kPage, bytes);
  if (memory == nullptr) throw std::bad_alloc();
  madvise(memory, bytes, MADV_HUGEPAGE);  // a refusal costs nothing
  std::memset(memory, 0, bytes);
  return {static_cast<float*>(memory), [](float* owned) { std::free(owned); }};
}

std::string describe_ranks(const ReducerSpec& spec) {
  const int size = spec.comm.size();
  return fmt::format("{} rank{}{}{}", size, size == 1 ? "" : "s",
                     spec.why.empty() ? "" : "; chosen because ", spec.why);
}

}  // namespace lockstep
