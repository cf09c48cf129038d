// The reducer for several ranks on each of several hosts. The ranks of a host sum in shared memory
// (collectives/reducers/shared.cc), up to the roots of the host. The first rank of each host sums
// these over the network: by an algorithm if each host has one root and their order is that of the
// hosts, else by direct. The others copy the result from its memory. The network carries as much as
// with one rank per host.
//
//   summing      the ranks of this host sum in shared memory
//   exchanging   the first rank exchanges the sums, the others wait for `whole`
//   copying      the others copy, the first waits for `copied`
//
// The exchanges of different buckets have different tags. So hosts may start them in different
// orders, each as soon as its own ranks have summed a bucket.
#include <algorithm>
#include <map>
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
        canonical_(nodes_ == 1 || spec.wire == Type::f32),
        roots_(canonical_ ? roots_of_hosts() : Roots::one_each(nodes_)),
        inner_(make_node_reducer({.comm = node,
                                  .device = spec.device,
                                  .count = spec.count,
                                  .buckets = spec.buckets,
                                  .roots = canonical_ ? roots_of_ranks() : Roots(),
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
    make_exchanges();
    std::string how = direct() ? "direct" : std::string(algorithm_.name);
    if (!canonical_) how = fmt::format("direct in {}", name_of(spec.wire));
    traits_ = {.name = "hierarchical",
               .description = fmt::format("hierarchical ({}; {} between {} hosts)",
                                          describe_ranks(spec), how, nodes_),
               .bytes = bytes(),
               .canonical = canonical_,
               .rows = inner_->traits().rows,
               .calls_mpi = nodes_ > 1,
               .residual = residual()};
  }

  float* gradients() override { return inner_->gradients(); }

  void share(const Roots& roots) override {
    spec_.roots = roots;
    roots_ = roots_of_hosts();
    inner_->share(roots_of_ranks());
    make_exchanges();
    traits_.rows = inner_->traits().rows;
    traits_.bytes = bytes();
  }

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
      // The sum within the host needs no messages, so this rank may sleep in it. An exchange moves
      // on only in calls of MPI.
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

  bool direct() const { return !canonical_ || !roots_.by_rank(); }
  void make_exchanges() {
    if (!leaders_) return;
    // The old buffers are freed before the new ones are allocated.
    exchanges_.clear();
    exchanges_ = direct() ? make_direct_all_reduces(spec_, *leaders_, roots_, residual(),
                                                    chunk_for(*leaders_))
                          : make_runs(spec_, *leaders_, algorithm_.algorithm);
  }

  /// The roots of this host's ranks. Collective.
  Roots roots_of_ranks() const {
    const Roots all = lockstep::roots_of(spec_);
    Roots here{all.shards, {}};
    const std::uint64_t own = spec_.comm.rank();
    for (const std::uint64_t rank : node_.of_all(own)) here.of_rank.push_back(all.of_rank[rank]);
    return here;
  }

  /// The roots of each host, by the number of its first rank. Collective. The map orders hosts by
  /// their first ranks, as leaders_of() numbers them.
  Roots roots_of_hosts() const {
    const Roots all = lockstep::roots_of(spec_);
    const std::uint64_t first = node_.min(spec_.comm.rank());
    std::map<std::uint64_t, std::vector<Range>> rows;
    const std::vector<std::uint64_t> hosts = spec_.comm.of_all(first);
    for (const Roots::Row& row : all.rows()) rows[hosts[row.rank]].push_back(row.shards);
    Roots of_hosts{all.shards, {}};
    for (const auto& [host, ranges] : rows)
      of_hosts.of_rank.push_back(subtrees_of(ranges, all.shards));
    return of_hosts;
  }

  void move_on(std::size_t i) {
    Bucket& bucket = buckets_[i];
    const auto others = static_cast<std::uint32_t>(node_.size() - 1);
    // The conditions follow the states in order, so that one call may pass several of them.
    if (bucket.state == State::summing && inner_->done(static_cast<int>(i))) {
      bucket.state = nodes_ == 1 ? State::done : State::exchanging;
      if (leaders_ && nodes_ > 1) {
        rows_.clear();
        for (float* row : inner_->sums()) rows_.push_back(row + bucket.range.begin);
        exchanges_[i]->start(rows_, gradients() + bucket.range.begin);
      }
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
    // The first rank may overwrite its gradients after done(). It therefore waits until all others
    // have copied.
    if (bucket.state == State::copying && bucket.copied->reached(bucket.step * others))
      bucket.state = State::done;
  }

  Comm node_;
  std::optional<Comm> leaders_;  ///< the first rank of each node, on these ranks
  int nodes_;
  const AlgorithmEntry& algorithm_;
  bool canonical_;  ///< no message is rounded
  Roots roots_;     ///< of the hosts
  std::unique_ptr<NodeReducer> inner_;
  Memory residual_;  ///< of a rank that sends 16 bits, else null
  NodeMemory counters_;
  Backoff backoff_;
  std::vector<Bucket> buckets_;
  Exchanges exchanges_;       ///< by bucket, on leaders
  std::vector<float*> rows_;  ///< of the bucket whose exchange starts
};

}  // namespace

std::unique_ptr<Reducer> make_hierarchical_on(const ReducerSpec& spec, const Comm& node) {
  return std::make_unique<HierarchicalReducer>(spec, node);
}

std::unique_ptr<Reducer> make_hierarchical_reducer(const ReducerSpec& spec) {
  return make_hierarchical_on(spec, spec.comm.node());
}

}  // namespace lockstep
