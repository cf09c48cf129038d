// The reducer for several ranks on each of several hosts. The ranks of a host sum in shared memory
// (collectives/reducers/shared.cc). The first rank of each host sums these sums over the network by
// an algorithm, and the others copy the result from its memory. The network carries as much as with
// one rank per host.
//
//   summing      the ranks of this host sum in shared memory
//   exchanging   the first rank carries out the algorithm, the others wait for `whole`
//   copying      the others copy, the first waits for `copied`
#include <algorithm>
#include <bit>
#include <optional>

#include "collectives/comm/communicator.h"
#include "collectives/node/backoff.h"
#include "collectives/node/node_memory.h"
#include "collectives/node/shared_counter.h"
#include "collectives/reducers/reducers.h"

namespace lockstep {
namespace {

class HierarchicalReducer : public HostReducer {
 public:
  HierarchicalReducer(const ReducerSpec& spec, const Comm& node)
      : HostReducer(spec),
        node_(node),
        leaders_(leaders_of(spec.comm, node)),
        nodes_(static_cast<int>(spec.comm.sum(node.rank() == 0))),
        algorithm_(*algorithms_by_cost(nodes_, spec.buckets, spec.link.value_or(Link())).front()),
        inner_(make_node_reducer({.comm = node,
                                  .device = spec.device,
                                  .count = spec.count,
                                  .buckets = spec.buckets,
                                  .deterministic = spec.deterministic},
                                 spec.comm)),
        residual_(leaders_ ? make_residual(spec, nodes_) : Memory()),
        counters_(spec.comm, node, 2 * spec.buckets.size() * sizeof(SharedCounter),
                  "the reducer hierarchical") {
    auto* counters = reinterpret_cast<SharedCounter*>(counters_.data());
    for (std::size_t i = 0; i < spec.buckets.size(); ++i) {
      Bucket& bucket = buckets_.emplace_back();
      bucket.range = spec.buckets[i];
      bucket.whole = counters + 2 * i;
      bucket.copied = counters + 2 * i + 1;
    }
    if (leaders_) {
      exchanges_ = residual_ ? make_direct_all_reduces(spec, *leaders_, residual())
                             : make_runs(spec, *leaders_, algorithm_.algorithm);
    }
    const std::string how = spec.wire == Type::f32
                                ? std::string(algorithm_.name)
                                : fmt::format("direct in {}", name_of(spec.wire));
    traits_ = {.name = "hierarchical",
               .description = fmt::format("hierarchical ({}; {} between {} hosts)",
                                          describe_ranks(spec), how, nodes_),
               .bytes = bytes(),
               .canonical = nodes_ == 1 ||
                            (spec.wire == Type::f32 && in_order() && algorithm_.canonical(nodes_)),
               .calls_mpi = nodes_ > 1,
               .residual = residual()};
  }

  float* gradients() override { return inner_->gradients(); }

  void start(int number) override {
    Bucket& bucket = buckets_[number];
    ++bucket.step;
    bucket.state = State::summing;
    inner_->start(number);
  }

  bool advance() override {
    inner_->advance();
    bool busy = false;
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      if (buckets_[i].state != State::done) move_on(i);
      busy |= buckets_[i].state != State::done;
    }
    return busy;
  }

  bool done(int bucket) const override { return buckets_[bucket].state == State::done; }

  void finish(int number) override {
    backoff_.begin();
    for (advance(); !done(number); advance()) {
      if (buckets_[number].state == State::summing) {
        inner_->finish(number);
        backoff_.begin();
      } else {
        backoff_.between();  // other buckets may need this rank
      }
    }
  }

 private:
  enum class State { summing, exchanging, copying, done };
  struct Bucket {
    Range range;
    SharedCounter* whole = nullptr;   ///< grows by one per step when the first rank has the sum
    SharedCounter* copied = nullptr;  ///< grows by one per step and rank that has copied the sum
    std::uint32_t step = 0;
    State state = State::done;
  };

  float* residual() { return reinterpret_cast<float*>(residual_.get()); }
  std::size_t bytes() const {
    std::size_t total = inner_->traits().bytes + counters_.bytes();
    for (const auto& each : exchanges_) total += each->bytes();
    return total + (residual_ ? gradient_bytes() : 0);
  }

  /// All nodes have the same power of two of consecutive ranks, so that their sums are subtrees of
  /// the canonical order. Collective.
  bool in_order() const {
    const int size = node_.size();
    const bool even = spec_.comm.min(size) == spec_.comm.max(size) &&
                      std::has_single_bit(static_cast<unsigned>(size));
    const std::int64_t first = node_.min(spec_.comm.rank());
    const bool consecutive = spec_.comm.rank() == first + node_.rank() && first % size == 0;
    return spec_.comm.min(even && consecutive) > 0;
  }

  void move_on(std::size_t i) {
    Bucket& bucket = buckets_[i];
    const auto others = static_cast<std::uint32_t>(node_.size() - 1);
    if (bucket.state == State::summing && inner_->done(static_cast<int>(i))) {
      bucket.state = nodes_ == 1 ? State::done : State::exchanging;
      if (leaders_ && nodes_ > 1) exchanges_[i]->start(gradients() + bucket.range.begin);
    }
    if (bucket.state == State::exchanging && leaders_ && !exchanges_[i]->advance()) {
      bucket.whole->add(1);
      bucket.state = State::copying;
    }
    if (bucket.state == State::exchanging && !leaders_ && bucket.whole->reached(bucket.step)) {
      std::copy_n(inner_->gradients_of(0) + bucket.range.begin, bucket.range.count,
                  gradients() + bucket.range.begin);
      bucket.copied->add(1);
      bucket.state = State::done;
    }
    if (bucket.state == State::copying && bucket.copied->reached(bucket.step * others))
      bucket.state = State::done;
  }

  Comm node_;
  std::optional<Comm> leaders_;  ///< the first rank of each node, on these ranks
  int nodes_;
  const AlgorithmEntry& algorithm_;
  std::unique_ptr<NodeReducer> inner_;
  Memory residual_;  ///< of a rank that sends 16 bits, else null
  NodeMemory counters_;
  Backoff backoff_;
  std::vector<Bucket> buckets_;
  Exchanges exchanges_;  ///< by bucket, on leaders
};

}  // namespace

std::unique_ptr<Reducer> make_hierarchical_on(const ReducerSpec& spec, const Comm& node) {
  return std::make_unique<HierarchicalReducer>(spec, node);
}

std::unique_ptr<Reducer> make_hierarchical_reducer(const ReducerSpec& spec) {
  return make_hierarchical_on(spec, spec.comm.node());
}

}  // namespace lockstep
