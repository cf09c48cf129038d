// The reducer for ranks of one host. Backward passes write gradients into memory that all ranks
// map, and no message is sent.
//
// A bucket has one part per rank. When all ranks have arrived, each rank claims its own part, then
// parts that no rank has claimed. It sums a part of the rows of all ranks in canonical order and
// writes the sum to all of them. The bucket is done when all parts are. A rank that computes again
// after its arrival therefore delays no other rank. The last rank to arrive sums a short bucket
// alone.
//
// Counters only grow, so that nothing must be reset: at step s the mark is s times the increments
// per step.
#include <atomic>

#include "collectives/node/node_cores.h"
#include "collectives/node/node_memory.h"
#include "collectives/node/shared_counter.h"
#include "collectives/reducers/reducers.h"
#include "collectives/sum.h"
#include "src/base/round_up.h"

namespace lockstep {
namespace {

constexpr std::int64_t kPage = kPageBytes / sizeof(float);  ///< floats of a page

/// The last step for which a rank has claimed a part.
struct alignas(64) Claim {
  std::atomic<std::uint32_t> step;
};

/// Places in the window, in floats.
struct Places {
  std::int64_t header;     ///< of a bucket: arrived, finished, then a Claim per part
  std::int64_t gradients;  ///< begin of rank 0's, behind all headers; the other ranks' follow
  std::int64_t row;        ///< from one to the next
  std::int64_t total;

  explicit Places(const ReducerSpec& spec) {
    const std::int64_t ranks = spec.comm.size();
    header = (2 + ranks) * kLineFloats;
    gradients = round_up(header * std::ssize(spec.buckets), kPage);
    row = round_up(spec.count, kPage);
    total = gradients + ranks * row;
  }
};

class SharedReducer : public NodeReducer {
 public:
  SharedReducer(const ReducerSpec& spec, const Comm& all)
      : NodeReducer(spec),
        all_(all),
        ranks_(spec.comm.size()),
        looks_(patient_looks(ranks_, node_cores(spec.comm).all)),
        places_(spec),
        memory_(all, spec.comm, places_.total * sizeof(float), "the reducer shared") {
    auto* base = reinterpret_cast<float*>(memory_.data());
    for (int rank = 0; rank < ranks_; ++rank)
      gradients_.push_back(base + places_.gradients + rank * places_.row);
    for (std::size_t i = 0; i < spec.buckets.size(); ++i) {
      auto* counters = reinterpret_cast<SharedCounter*>(base + places_.header * i);
      buckets_.push_back(
          {spec.buckets[i], counters, counters + 1, reinterpret_cast<Claim*>(counters + 2)});
    }
    traits_ = {.name = "shared", .canonical = true};
    SharedReducer::share(roots_of(spec));
    traits_.description = fmt::format("shared ({}; window of {:.1f} MiB)", describe_ranks(spec),
                                      static_cast<double>(traits_.bytes) / (1 << 20));
  }

  void share(const Roots& roots) override {
    const std::vector<Roots::Row> all = roots.rows();
    std::int64_t earlier = std::ssize(all) - ranks_;  // rows besides the gradients
    // The old rows go first, so that /dev/shm never holds both.
    earlier_.reset();
    // NodeMemory is collective over all hosts. If one host needs it, a host without further rows
    // gets a page.
    if (all_.max(earlier) > 0) {
      const std::size_t bytes =
          std::max<std::int64_t>(earlier * places_.row, kPage) * sizeof(float);
      earlier_ =
          std::make_unique<NodeMemory>(all_, spec_.comm, bytes, "the reducer's rows of shares");
    }
    traits_.bytes = memory_.bytes() + (earlier_ ? earlier_->bytes() : 0);
    traits_.rows.clear();
    rows_.clear();
    for (const auto& [rank, number, shards] : all) {
      const bool last = number + 1 == std::ssize(roots.of_rank[rank]);
      rows_.push_back(last ? gradients_[rank]
                           : reinterpret_cast<float*>(earlier_->data()) + --earlier * places_.row);
      if (rank == spec_.comm.rank()) traits_.rows.push_back(rows_.back());
    }
    // If the rows of this host are a whole tree, each rank gets the sum. Else the sums that are
    // left stay in the rows with which they begin, for the exchange between hosts.
    fold_ = roots.fold();
    sums_.clear();
    for (const int row : fold_.left) sums_.push_back(rows_[row]);
    if (sums_.size() == 1) sums_ = {gradients_.front()};
  }

  float* gradients() override { return gradients_of(spec_.comm.rank()); }
  float* gradients_of(int rank) const override { return gradients_[rank]; }

  void start(int number) override {
    Bucket& bucket = buckets_[number];
    ++bucket.step;
    bucket.done = ranks_ == 1;
    if (bucket.done) return;
    // From here on any rank of the host may read and write this rank's bucket.
    bucket.arrived->add(1);
  }

  bool advance() override {
    bool busy = false;
    for (Bucket& bucket : buckets_) {
      if (!bucket.done) move_on(bucket);
      busy |= !bucket.done;
    }
    return busy;
  }

  bool done(int bucket) const override { return buckets_[bucket].done; }

  void finish(int number) override {
    Bucket& bucket = buckets_[number];
    for (;;) {
      advance();
      if (bucket.done) return;
      // wait() returns after about a millisecond at the latest, so that this rank also moves its
      // other buckets on.
      SharedCounter& awaited =
          *(bucket.arrived->reached(mark(bucket)) ? bucket.finished : bucket.arrived);
      awaited.wait(mark(bucket), looks_);
    }
  }

 private:
  struct Bucket {
    Range range;
    SharedCounter* arrived;   ///< grows by one per rank and step
    SharedCounter* finished;  ///< grows by one per part and step
    Claim* claims;            ///< by part
    std::uint32_t step = 0;   ///< starts by this rank
    bool done = true;
  };

  /// The product wraps around as the counters do, so that they stay comparable in runs of any
  /// length.
  std::uint32_t mark(const Bucket& bucket) const {
    return bucket.step * static_cast<std::uint32_t>(ranks_);
  }

  void move_on(Bucket& bucket) {
    // A claim is the number of this step or of the one before. No rank begins step s + 1 of a
    // bucket before all parts of step s are finished. So one compare-and-swap decides who sums a
    // part. A rank begins with its own part, because ranks that arrive together then claim
    // different ones.
    if (!bucket.arrived->reached(mark(bucket))) return;
    for (int i = 0; i < ranks_; ++i) {
      const int part = (spec_.comm.rank() + i) % ranks_;
      std::uint32_t before = bucket.step - 1;
      if (!bucket.claims[part].step.compare_exchange_strong(before, bucket.step)) continue;
      sum_part(bucket, part);
      bucket.finished->add(1);
    }
    // Parts that others have claimed may still be under way, and they write to this rank's
    // gradients too.
    bucket.done = bucket.finished->reached(mark(bucket));
  }

  void sum_part(const Bucket& bucket, int part) {
    const Range elements = part_of(bucket.range, part, ranks_, kLineFloats);
    const std::vector<float*>& results = sums_.size() == 1 ? gradients_ : sums_;
    parts_.clear();
    for (float* row : rows_) parts_.push_back(row + elements.begin);
    results_.clear();
    for (float* result : results) results_.push_back(result + elements.begin);
    sum_rows(fold_, parts_, results_, elements.count);
  }

  Comm all_;
  int ranks_;
  int looks_;
  Places places_;
  NodeMemory memory_;
  std::unique_ptr<NodeMemory> earlier_;  ///< rows besides the gradients; null: there are none
  Fold fold_;
  std::vector<float*> gradients_;  ///< by rank
  std::vector<float*> rows_;       ///< of all ranks, in ascending order of their shards
  std::vector<Bucket> buckets_;
  std::vector<float*> parts_, results_;  ///< of the part under way
};

}  // namespace

std::unique_ptr<Reducer> make_shared_reducer(const ReducerSpec& spec) {
  const int here = spec.comm.node().size();
  agree(spec.comm, [&] {
    require(here == spec.comm.size(),
            "the reducer shared needs all ranks on one host, but only {} of {} are on {}. Pass "
            "--reducer auto or tree.",
            here, spec.comm.size(), host_name());
  });
  return make_node_reducer(spec, spec.comm);
}

std::unique_ptr<NodeReducer> make_node_reducer(const ReducerSpec& spec, const Comm& all) {
  return std::make_unique<SharedReducer>(spec, all);
}

}  // namespace lockstep
