// The reducer cuda_ipc: that of shared memory, with kernels. Several ranks of one host, on one
// device or on several, sum in each other's memory.
//
//   compute    writes the bucket | ready
//   the host                     | arrived += 1, and when all have:
//   stream()                       all ranks' ready | sums its part  for everybody | summed
//   the host                                                           | finished += 1, when all
//   have: stream()                                                             all ranks' summed |
//   update
//
// A wait is for the record that was called last, so a counter in memory that all ranks see stands
// between every record and its waits. The counters only grow, as those of shared do. A mark is not
// recorded anew before all its waits were called: a rank comes to step s + 1 when `finished` says
// that all have given their sum of step s, and to its summed when `arrived` says that all have
// given their waits for those of step s. No kernel waits for another: streams wait for marks.
#include <sched.h>

#include "collectives/node/node_cores.h"
#include "collectives/node/node_memory.h"
#include "collectives/node/shared_counter.h"
#include "collectives/reducers/peers.h"
#include "collectives/reducers/reducers.h"
#include "collectives/sum.h"

namespace lockstep {
namespace {

class PeerReducer : public Reducer {
 public:
  PeerReducer(const ReducerSpec& spec, const MakePeers& make_peers)
      : spec_(spec),
        ranks_(spec.comm.size()),
        patience_(Patience::of(ranks_, node_cores(spec.comm).all)),
        counters_(spec.comm, spec.comm, 2 * spec.buckets.size() * sizeof(SharedCounter),
                  "the reducer cuda_ipc"),
        peers_(make_peers(spec, static_cast<int>(2 * spec.buckets.size()))),
        stream_(spec.device.stream(Priority::high)) {
    auto* counters = reinterpret_cast<SharedCounter*>(counters_.data());
    for (std::size_t i = 0; i < spec.buckets.size(); ++i) {
      const int mark = static_cast<int>(2 * i);
      buckets_.push_back({spec.buckets[i], counters + mark, counters + mark + 1, mark, mark + 1});
    }
    traits_ = {.name = "cuda_ipc",
               .description = fmt::format("cuda_ipc ({})", describe_ranks(spec)),
               .bytes = spec.count * sizeof(float) + counters_.bytes(),
               .canonical = true};
  }

  ~PeerReducer() override {
    try {
      stream_->synchronize();
    } catch (...) {  // whoever waited for the sums has met it
    }
  }

  float* gradients() override { return peers_->gradients(spec_.comm.rank()); }
  void written(int bucket, Stream& writer) override { peers_->record(at(bucket).ready, writer); }

  void start(int number) override {
    Bucket& bucket = at(number);
    ++bucket.step;
    bucket.state = State::arriving;
    bucket.arrived->add(1);
    move_on(bucket);
  }

  bool advance() override {
    bool busy = false;
    for (Bucket& bucket : buckets_) {
      move_on(bucket);
      busy |= bucket.state != State::done;
    }
    return busy;
  }

  bool done(int bucket) const override { return buckets_[bucket].state == State::done; }

  void finish(int number) override {
    Bucket& bucket = at(number);
    for (;;) {
      advance();
      if (bucket.state == State::done) return;
      SharedCounter& awaited =
          *(bucket.state == State::arriving ? bucket.arrived : bucket.finished);
      awaited.wait(mark(bucket), patience_);
    }
  }

  Stream& stream() override { return *stream_; }

 private:
  enum class State {
    arriving,  ///< not all ranks have recorded that their part is written
    summing,   ///< not all ranks have given the sum of their part
    done,
  };
  struct Bucket {
    Range range;
    SharedCounter* arrived;   ///< grows by one per rank and step, after the record of `ready`
    SharedCounter* finished;  ///< the same, after that of `summed`
    int ready, summed;        ///< marks
    std::uint32_t step = 0;   ///< how many times it was started
    State state = State::done;
  };

  Bucket& at(int bucket) { return buckets_[bucket]; }
  std::uint32_t mark(const Bucket& bucket) const {
    return bucket.step * static_cast<std::uint32_t>(ranks_);
  }

  void move_on(Bucket& bucket) {
    if (bucket.state == State::arriving && bucket.arrived->reached(mark(bucket))) {
      for (int rank = 0; rank < ranks_; ++rank) peers_->wait(rank, bucket.ready, *stream_);
      sum_part(bucket);
      peers_->record(bucket.summed, *stream_);
      bucket.state = State::summing;
      bucket.finished->add(1);
    }
    if (bucket.state == State::summing && bucket.finished->reached(mark(bucket))) {
      for (int rank = 0; rank < ranks_; ++rank) peers_->wait(rank, bucket.summed, *stream_);
      bucket.state = State::done;
    }
  }

  void sum_part(const Bucket& bucket) {
    const Range part = part_of(bucket.range, spec_.comm.rank(), ranks_, kLineFloats);
    summed_.clear();
    for (int rank = 0; rank < ranks_; ++rank)
      summed_.push_back(peers_->gradients(rank) + part.begin);
    sum_canonically(*stream_, summed_, part.count);
  }

  ReducerSpec spec_;
  int ranks_;
  Patience patience_;
  NodeMemory counters_;
  std::unique_ptr<Peers> peers_;
  std::vector<Bucket> buckets_;
  std::vector<float*> summed_;      ///< by rank: what is being summed
  std::unique_ptr<Stream> stream_;  ///< last: its work ends before what it uses goes
};

}  // namespace

std::unique_ptr<Reducer> make_peer_reducer(const ReducerSpec& spec, const MakePeers& make_peers) {
  const int here = spec.comm.node().size();
  agree(spec.comm, [&] {
    require(here == spec.comm.size(),
            "the reducer cuda_ipc needs all ranks on one host, but only {} of {} are on {}: choose "
            "--reducer auto",
            here, spec.comm.size(), host_name());
    require(here <= kMostPeers,
            "the reducer cuda_ipc is for up to {} ranks, not for {}: choose --reducer auto",
            kMostPeers, here);
  });
  return std::make_unique<PeerReducer>(spec, make_peers);
}

}  // namespace lockstep
