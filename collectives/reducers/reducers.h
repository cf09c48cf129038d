// The parts that reducers share. Each maker is collective and fails on all ranks alike.
#pragma once

#include <memory>

#include "collectives/algorithms/algorithms.h"
#include "collectives/exchange.h"
#include "collectives/reducer.h"

namespace lockstep {

/// Carries out `algorithm` over MPI messages.
std::unique_ptr<Reducer> make_scheduled_reducer(const AlgorithmEntry& algorithm,
                                                const ReducerSpec& spec);
/// collectives/reducers/direct_all_reduce.h, in messages of spec.wire.
std::unique_ptr<Reducer> make_direct_reducer(const ReducerSpec& spec);
/// In memory that all ranks of one host see.
std::unique_ptr<Reducer> make_shared_reducer(const ReducerSpec& spec);
/// That within each node, an algorithm of the menu between the first ranks of the nodes, or direct
/// where the wire has 16 bits. `node`: the ranks that see this one's memory, in rank order.
std::unique_ptr<Reducer> make_hierarchical_on(const ReducerSpec& spec, const Comm& node);

/// What "auto" is between hosts: measures the link, then takes the hierarchical one where nodes
/// hold several ranks and it is canonical, else the fastest of direct and the two algorithms that
/// should be the cheapest, as a bucket of theirs tells. The same on all ranks. Below half a second,
/// and no memory stays.
std::unique_ptr<Reducer> make_network_reducer(const ReducerSpec& spec, const Comm& node);

/// For gradients in memory of a device that the host may not touch: copies them to `inner`, a
/// reducer of the host, and its sums back. Local.
std::unique_ptr<Reducer> make_staged_reducer(const ReducerSpec& spec,
                                             std::unique_ptr<Reducer> inner);

/// What the reducers have in common that sum in memory of the host, by the host.
class HostReducer : public Reducer {
 public:
  explicit HostReducer(const ReducerSpec& spec) : spec_(spec), stream_(spec.device.stream()) {}

  void written(int, Stream&) override {}
  Stream& stream() override { return *stream_; }

 protected:
  Range range(int bucket) const { return spec_.buckets[bucket]; }
  std::size_t gradient_bytes() const { return spec_.count * sizeof(float); }

  ReducerSpec spec_;

 private:
  std::unique_ptr<Stream> stream_;
};

/// A reducer whose ranks see each other's gradients.
class NodeReducer : public HostReducer {
 public:
  using HostReducer::HostReducer;
  /// Of rank `rank` of its communicator.
  virtual float* gradients_of(int rank) const = 0;
};

/// make_shared_reducer(), for ranks that are known to be on one host. Collective over `all`: each
/// host makes one for its ranks. If a host has no room, all ranks of `all` throw the same error.
std::unique_ptr<NodeReducer> make_node_reducer(const ReducerSpec& spec, const Comm& all);

/// What `senders` ranks of `spec` keep back of what they send, zeroed; null where they round
/// nothing.
Memory make_residual(const ReducerSpec& spec, int senders);
/// Between the ranks of `comm`, by bucket of `spec`.
std::vector<std::unique_ptr<Exchange>> make_direct_all_reduces(const ReducerSpec& spec,
                                                               const Comm& comm, float* kept);
std::vector<std::unique_ptr<Exchange>> make_runs(const ReducerSpec& spec, const Comm& comm,
                                                 Algorithm algorithm);

/// Throws the usage error for a count or buckets that cannot be summed. Local.
void require_possible(const ReducerSpec& spec);
/// All ranks throw the same error if they disagree about what the sums depend on. Collective.
void require_same(std::string_view name, const ReducerSpec& spec);

/// "2 ranks, chosen because ...": the end of every description.
std::string describe_ranks(const ReducerSpec& spec);

}  // namespace lockstep
