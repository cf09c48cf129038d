// The parts that reducers share. Each maker is collective and throws the same error on all ranks.
#pragma once

#include <functional>
#include <memory>

#include "collectives/algorithms/algorithms.h"
#include "collectives/exchange.h"
#include "collectives/reducer.h"

namespace lockstep {

/// Carries out `algorithm` over MPI messages.
std::unique_ptr<Reducer> make_scheduled_reducer(const AlgorithmEntry& algorithm,
                                                const ReducerSpec& spec);
/// Each rank sums a part of each bucket, in messages of spec.wire (collectives/reducers/direct.cc).
std::unique_ptr<Reducer> make_direct_reducer(const ReducerSpec& spec);
/// Sums in memory that all ranks of one host map.
std::unique_ptr<Reducer> make_shared_reducer(const ReducerSpec& spec);
/// Sums in shared memory within each node, and between the first ranks of the nodes by an
/// algorithm, or by direct with 16 bits. `node`: the ranks that share memory with this one, in rank
/// order.
std::unique_ptr<Reducer> make_hierarchical_on(const ReducerSpec& spec, const Comm& node);

/// "auto" between hosts. Measures the link. Then makes hierarchical if nodes have several ranks and
/// it is canonical. Else it times direct and the two algorithms with the least cost() on the first
/// buckets, and makes the fastest. The same on all ranks. Takes less than half a second.
std::unique_ptr<Reducer> make_network_reducer(const ReducerSpec& spec, const Comm& node);

/// For gradients in memory that the host may not touch: copies them to `inner`, a reducer of the
/// host, and its sums back. Local.
std::unique_ptr<Reducer> make_staged_reducer(const ReducerSpec& spec,
                                             std::unique_ptr<Reducer> inner);

/// For one rank with gradients in memory that the host may not touch. Local.
std::unique_ptr<Reducer> make_lone_reducer(const ReducerSpec& spec);

/// Base of reducers whose order is in streams, so that a started bucket is done.
class StreamReducer : public Reducer {
 public:
  explicit StreamReducer(const ReducerSpec& spec) : stream_(spec.device.stream(Priority::high)) {
    for (std::size_t i = 0; i < spec.buckets.size(); ++i) ready_.push_back(spec.device.event());
  }

  void written(int bucket, Stream& writer) override { ready_[bucket]->record(writer); }
  void start(int bucket) override { ready_[bucket]->wait(*stream_); }
  bool advance() override { return false; }
  bool done(int) const override { return true; }
  void finish(int) override {}
  Stream& stream() override { return *stream_; }

 protected:
  std::unique_ptr<Stream> stream_;

 private:
  std::vector<std::unique_ptr<Event>> ready_;
};

/// Base of reducers that sum in memory of the host.
class HostReducer : public Reducer {
 public:
  explicit HostReducer(const ReducerSpec& spec) : spec_(spec), stream_(spec.device.stream()) {}

  void written(int, Stream&) override {}
  Stream& stream() override { return *stream_; }

 protected:
  std::size_t gradient_bytes() const { return spec_.count * sizeof(float); }

  ReducerSpec spec_;

 private:
  std::unique_ptr<Stream> stream_;
};

/// A reducer whose ranks map each other's gradients.
class NodeReducer : public HostReducer {
 public:
  using HostReducer::HostReducer;
  /// The gradients of rank `rank` of its communicator.
  virtual float* gradients_of(int rank) const = 0;
  /// The sums that are left if the host's ranks have no whole tree; else gradients_of(0) alone.
  const std::vector<float*>& sums() const { return sums_; }

 protected:
  std::vector<float*> sums_;  ///< set in the constructor
};

/// make_shared_reducer() for ranks that are on one host. Collective over `all`: each host makes one
/// for its ranks. If a host has no room, all ranks of `all` throw the same error.
std::unique_ptr<NodeReducer> make_node_reducer(const ReducerSpec& spec, const Comm& all);

/// Zeroed memory for ReducerTraits::residual; null if `senders` ranks of `spec` round nothing.
Memory make_residual(const ReducerSpec& spec, int senders);
/// Bytes of the chunks between the ranks of `comm`. Collective.
std::size_t chunk_for(const Comm& comm);

using Exchanges = std::vector<std::unique_ptr<Exchange>>;
/// The sums of direct between the ranks of `comm`, by bucket of `spec`, in messages of spec.wire.
/// `roots`: of these ranks; in 16 bits one of each. Every rank gets the first spec.exact elements
/// in fp32 and sums them. `residual`: spec.count floats that outlive the exchanges, zeros before
/// the first step; null with fp32. `chunk`: see Exchange.
Exchanges make_direct_all_reduces(const ReducerSpec& spec, const Comm& comm, const Roots& roots,
                                  float* residual, std::size_t chunk);
/// Runs of `algorithm` between the ranks of `comm`, by bucket of `spec`.
Exchanges make_runs(const ReducerSpec& spec, const Comm& comm, Algorithm algorithm);
using MakeExchanges = std::function<Exchanges(const Roots&)>;
/// Sums `roots` by the exchanges that `make` returns for them. `residual`: of make_residual(), or
/// null.
std::unique_ptr<Reducer> make_exchange_reducer(const ReducerSpec& spec, std::string_view name,
                                               bool canonical, const Roots& roots,
                                               MakeExchanges make, Memory residual = {});

/// spec.roots, or one of each rank if there are none.
Roots roots_of(const ReducerSpec& spec);

/// "2 ranks; chosen because ...": the end of every description.
std::string describe_ranks(const ReducerSpec& spec);

}  // namespace lockstep
