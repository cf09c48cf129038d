// The reducer for ranks of one host: gradients are born in memory that all of them see, and no
// message is sent.
//
// A bucket is cut into one slice per rank. When all ranks have arrived, each slice is claimed by
// some rank, its own first and then those that nobody has begun; the rank sums it over all ranks in
// canonical order and writes the sum to everybody. When all slices are finished, the bucket is. A
// rank that is still computing thus holds nobody up once it has arrived.
//
// Short buckets spend their time not in summing but in waiting for each other twice. Each rank puts
// a copy of its part in the window instead; when all have arrived, everybody sums all copies for
// itself. There are two sets of copies for steps in turn: a rank can overwrite a set only after a
// whole step in between, which nobody has finished before all had left this one.
//
// Counters only grow: at step s they are waited for at s times their value per step, so that
// nothing must be reset.
#include <sys/sysinfo.h>

#include <algorithm>
#include <atomic>

#include "collectives/node_memory.h"
#include "collectives/reducers.h"
#include "collectives/schedule.h"
#include "collectives/shared_counter.h"
#include "collectives/sum.h"

namespace lockstep {
namespace {

constexpr std::int64_t kShortBucket =
    4096;                           ///< floats; up to here two waits cost more than P-fold reading
constexpr std::int64_t kLine = 16;  ///< floats of a cache line: no two ranks write to the same one
constexpr std::int64_t kPage = 1024;  ///< floats of a page

std::int64_t round_up(std::int64_t count, std::int64_t unit) {
  return (count + unit - 1) / unit * unit;
}

/// The step up to which a slice has been claimed by some rank.
struct alignas(64) Claim {
  std::atomic<std::uint32_t> step;
};

/// Where things lie in the window, in floats.
struct Places {
  std::vector<std::int64_t> headers;  ///< by bucket: arrived, finished, one Claim per rank
  std::vector<std::int64_t> copies;   ///< by bucket, if it is short: two sets of one copy per rank
  std::int64_t gradients = 0;         ///< of rank 0; the others follow
  std::int64_t gradients_each = 0;
  std::int64_t total = 0;

  explicit Places(const ReducerSpec& spec) {
    const std::int64_t ranks = spec.comm.size();
    for (std::size_t bucket = 0; bucket < spec.buckets.size(); ++bucket) {
      headers.push_back(total);
      total += (2 + ranks) * kLine;
    }
    for (const Range& bucket : spec.buckets) {
      copies.push_back(total);
      if (bucket.count <= kShortBucket) total += 2 * ranks * round_up(bucket.count, kLine);
    }
    gradients = total = round_up(total, kPage);
    gradients_each = round_up(spec.count, kPage);
    total += ranks * gradients_each;
  }
};

class SharedReducer : public Reducer {
 public:
  explicit SharedReducer(const ReducerSpec& spec)
      : spec_(spec),
        ranks_(spec.comm.size()),
        spins_(ranks_ <= get_nprocs() ? 5000 : 200),
        places_(spec),
        memory_(spec.comm, static_cast<std::size_t>(places_.total) * sizeof(float),
                "the reducer shared") {
    auto* base = reinterpret_cast<float*>(memory_.data());
    for (int rank = 0; rank < ranks_; ++rank)
      gradients_.push_back(base + places_.gradients + rank * places_.gradients_each);
    for (std::size_t i = 0; i < spec.buckets.size(); ++i) {
      auto* counters = reinterpret_cast<SharedCounter*>(base + places_.headers[i]);
      buckets_.push_back({spec.buckets[i], base + places_.copies[i], counters, counters + 1,
                          reinterpret_cast<Claim*>(counters + 2)});
    }
  }

  float* gradients() override { return gradients_[static_cast<std::size_t>(spec_.comm.rank())]; }

  void start(int number) override {
    Bucket& bucket = buckets_[static_cast<std::size_t>(number)];
    ++bucket.step;
    bucket.done = ranks_ == 1;
    if (bucket.done) return;
    if (bucket.is_short()) {
      std::copy_n(gradients() + bucket.range.begin, bucket.range.count,
                  copy(bucket, spec_.comm.rank()));
    }
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

  bool done(int bucket) const override { return buckets_[static_cast<std::size_t>(bucket)].done; }

  void finish(int number) override {
    Bucket& bucket = buckets_[static_cast<std::size_t>(number)];
    for (;;) {
      advance();
      if (bucket.done) return;
      SharedCounter& awaited =
          bucket.arrived->reached(bucket.mark(ranks_)) ? *bucket.finished : *bucket.arrived;
      awaited.wait(bucket.mark(ranks_), spins_);
    }
  }

  bool canonical() const override { return true; }
  bool speaks_mpi() const override { return false; }
  std::string_view name() const override { return "shared"; }
  std::string describe() const override {
    return fmt::format("shared ({}; window of {:.1f} MiB)", describe_ranks(spec_),
                       static_cast<double>(memory_.bytes()) / (1 << 20));
  }

 private:
  struct Bucket {
    Range range;
    float* copies;
    SharedCounter* arrived;   ///< grows by one per rank and step
    SharedCounter* finished;  ///< grows by one per slice and step
    Claim* claims;            ///< by slice
    std::uint32_t step = 0;   ///< of this rank: how many times it was started
    bool done = true;

    bool is_short() const { return range.count <= kShortBucket; }
    std::uint32_t mark(int ranks) const { return step * static_cast<std::uint32_t>(ranks); }
  };

  float* copy(const Bucket& bucket, int rank) const {
    return bucket.copies +
           ((bucket.step & 1) * ranks_ + rank) * round_up(bucket.range.count, kLine);
  }

  void move_on(Bucket& bucket) {
    if (!bucket.arrived->reached(bucket.mark(ranks_))) return;
    if (bucket.is_short()) {
      sum_copies(bucket);
      bucket.done = true;
      return;
    }
    for (int i = 0; i < ranks_; ++i) {
      const int slice = (spec_.comm.rank() + i) % ranks_;
      std::uint32_t before = bucket.step - 1;
      if (!bucket.claims[slice].step.compare_exchange_strong(before, bucket.step)) continue;
      sum_slice(bucket, slice);
      bucket.finished->add(1);
    }
    bucket.done = bucket.finished->reached(bucket.mark(ranks_));
  }

  void sum_copies(const Bucket& bucket) {
    sources_.clear();
    for (int rank = 0; rank < ranks_; ++rank) sources_.push_back(copy(bucket, rank));
    float* const sum = gradients() + bucket.range.begin;
    sum_canonically(sources_, {&sum, 1}, bucket.range.count);
  }

  void sum_slice(const Bucket& bucket, int slice) {
    const Range lines = part_of({0, round_up(bucket.range.count, kLine) / kLine}, slice, ranks_);
    const std::int64_t begin = lines.begin * kLine,
                       end = std::min(lines.end() * kLine, bucket.range.count);
    sources_.clear();
    sums_.clear();
    for (float* gradients : gradients_) {
      sums_.push_back(gradients + bucket.range.begin + begin);
      sources_.push_back(sums_.back());
    }
    sum_canonically(sources_, sums_, end - begin);
  }

  ReducerSpec spec_;
  int ranks_;
  int spins_;  ///< looks before sleeping: some 50 us where every rank has a core, else the core is
               ///< given away soon
  Places places_;
  NodeMemory memory_;
  std::vector<float*> gradients_;  ///< by rank
  std::vector<Bucket> buckets_;
  std::vector<const float*> sources_;
  std::vector<float*> sums_;
};

}  // namespace

std::unique_ptr<Reducer> make_shared_reducer(const ReducerSpec& spec) {
  Comm node = spec.comm.node();
  const std::int64_t here = node.size();
  node.free();
  agree(spec.comm, [&] {
    require(here == spec.comm.size(),
            "the reducer shared needs all ranks on one host, but only {} of {} are on {}: choose "
            "--reducer auto or tree",
            here, spec.comm.size(), host_name());
  });
  return std::make_unique<SharedReducer>(spec);
}

}  // namespace lockstep
