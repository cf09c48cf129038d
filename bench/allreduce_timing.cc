// The time of an all-reduce on the ranks of this run, and its bound.
#include <algorithm>
#include <functional>
#include <vector>

#include "bench/allreduce.h"
#include "collectives/comm/communicator.h"
#include "collectives/reducer.h"
#include "collectives/reducers/measured_link.h"
#include "collectives/schedule.h"
#include "collectives/sum.h"
#include "src/base/clock.h"
#include "src/base/round_up.h"

namespace lockstep {
namespace {

/// The all-reduce that is timed.
struct Subject {
  std::function<float*(int bucket)> place;
  std::function<void(int bucket)> run;
  std::int64_t count;  ///< elements of a bucket
  int buckets;
};

constexpr std::int64_t kPeriod = 61;

/// Integers for which every order of addition gives the same bits, in 16 bits up to 128 ranks. They
/// repeat after kPeriod elements.
float part(int rank, std::int64_t i, int iteration, const TimingOptions& options) {
  const auto at = static_cast<int>(i % kPeriod);
  return static_cast<float>(options.type == Type::f32 ? (rank + 1) * (at + 1) + iteration % 7
                                                      : (rank + at + iteration) % 3);
}

/// Nanoseconds of each of `iterations` calls on the slowest rank.
/// Each rank measures durations by its own clock, so clocks need not agree. A barrier before each
/// call lets all begin together. The sum is of use only when the last rank has it.
std::vector<double> slowest(const Comm& comm, int iterations,
                            const std::function<void(int)>& prepare,
                            const std::function<void(int)>& run) {
  std::vector<std::uint64_t> own;
  for (int i = 0; i < iterations; ++i) {
    prepare(i);
    comm.barrier();
    const std::int64_t began = now_ns();
    run(i);
    own.push_back(static_cast<std::uint64_t>(now_ns() - began));
  }
  const std::vector<std::uint64_t> all = comm.all_gather(own);
  std::vector<double> most(own.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    most[i % own.size()] = std::max(most[i % own.size()], static_cast<double>(all[i]));
  return most;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// As many iterations as fit, the same on all ranks.
int iterations_for(double ns) { return static_cast<int>(std::clamp(150e6 / ns, 7.0, 2000.0)); }

std::int64_t count_wrong(const Comm& comm, const Subject& subject, const TimingOptions& options) {
  float own[kPeriod], sums[kPeriod] = {};
  for (std::int64_t i = 0; i < kPeriod; ++i) {
    own[i] = part(comm.rank(), i, 3, options);
    for (int rank = 0; rank < comm.size(); ++rank) sums[i] += part(rank, i, 3, options);
  }
  float* values = subject.place(0);
  for (std::int64_t i = 0; i < subject.count; ++i) values[i] = own[i % kPeriod];
  comm.barrier();
  subject.run(0);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < subject.count; ++i) wrong += values[i] != sums[i % kPeriod];
  return comm.sum(wrong);
}

AllreduceRow time(const Comm& comm, const Subject& subject, const TimingOptions& options) {
  const auto prepare = [&](int i) {
    std::fill_n(subject.place(i % subject.buckets), subject.count,
                part(comm.rank(), i, i, options));
  };
  const auto run = [&](int i) { subject.run(i % subject.buckets); };
  int iterations = options.iterations;
  // Without a warm-up, one iteration tells how many fit.
  const int warmup = std::max(options.warmup, iterations == 0 ? 1 : 0);
  const std::vector<double> first = slowest(comm, warmup, prepare, run);
  if (iterations == 0) iterations = iterations_for(median(first));
  std::vector<double> ns = slowest(comm, iterations, prepare, run);
  std::sort(ns.begin(), ns.end());
  AllreduceRow row;
  row.type = name_of(options.type);
  row.elements = subject.count;
  row.bytes = subject.count * static_cast<std::int64_t>(size_of(options.type));
  row.median_us = ns[ns.size() / 2] * 1e-3;
  row.p95_us = ns[ns.size() * 95 / 100] * 1e-3;
  row.max_us = ns.back() * 1e-3;
  if (options.check) row.wrong = count_wrong(comm, subject, options);
  return row;
}

}  // namespace

AllreduceRow time_allreduce(const Comm& comm, const std::string& name, std::int64_t bytes,
                            const TimingOptions& options) {
  const std::int64_t count = bytes / static_cast<std::int64_t>(size_of(options.type));
  const int buckets = static_cast<int>(std::clamp<std::int64_t>((32 << 20) / bytes, 1, 8));
  const std::int64_t apart = round_up(count, 1024);
  AllreduceRow row;
  if (name == kPeer) {
    agree(comm, [&] {
      require(count <= static_cast<std::int64_t>(comm.largest_message()),
              "{} supports at most {} elements in one call. Pass a smaller --max.", kPeer,
              comm.largest_message());
    });
    std::vector<float> memory(apart * buckets);
    const auto place = [&](int bucket) { return memory.data() + bucket * apart; };
    const auto run = [&](int bucket) {
      check(MPI_Allreduce(MPI_IN_PLACE, place(bucket), static_cast<int>(count), MPI_FLOAT, MPI_SUM,
                          raw(comm)));
    };
    row = time(comm, {place, run, count, buckets}, options);
  } else {
    const auto device = make_cpu_device(1);
    std::vector<Range> ranges;
    for (int bucket = 0; bucket < buckets; ++bucket) ranges.push_back({bucket * apart, count});
    ReducerSpec spec{.comm = comm.duplicate(),
                     .device = *device,
                     .count = apart * buckets,
                     .buckets = ranges,
                     .wire = options.type,
                     .one_by_one = true};
    const auto reducer = make_reducer(name, spec);
    const auto stream = device->stream();
    const auto run = [&](int bucket) {
      reducer->written(bucket, *stream);
      reducer->start(bucket);
      reducer->finish(bucket);
    };
    const auto place = [&](int bucket) { return reducer->gradients() + bucket * apart; };
    row = time(comm, {place, run, count, buckets}, options);
  }
  row.reducer = name;
  return row;
}

AllreduceBound::AllreduceBound(const Comm& comm) : comm_(comm) {
  const Comm node = comm.node();
  hosts_ = static_cast<int>(comm.sum(node.rank() == 0));
  if (hosts_ > 1) bytes_per_s_ = measure_link(comm, node).bandwidth;
}

std::optional<double> AllreduceBound::operator()(std::int64_t bytes, Type type) const {
  const int ranks = comm_.size();
  if (ranks == 1) return std::nullopt;
  if (hosts_ > 1)
    // Every host must send and receive this share of the bytes, whatever the algorithm.
    return 2.0 * (hosts_ - 1) / hosts_ * static_cast<double>(bytes) / bytes_per_s_ * 1e6;
  const std::int64_t count = bytes / static_cast<std::int64_t>(size_of(type));
  // Within a host memory is shared, and the additions remain. Each rank adds its part of the rows
  // of all ranks.
  const Range part = part_of({0, count}, comm_.rank(), ranks, kLineFloats);
  const std::int64_t apart = round_up(part.count, 1024);
  const int buckets = static_cast<int>(std::clamp<std::int64_t>((32 << 20) / bytes, 1, 8));
  std::vector<float> memory(apart * ranks * buckets);
  std::vector<float*> parts(ranks);
  const auto prepare = [&](int i) {
    float* place = memory.data() + i % buckets * apart * ranks;
    for (int rank = 0; rank < ranks; ++rank)
      std::fill_n(parts[rank] = place + rank * apart, part.count, 1.0f);
  };
  const auto run = [&](int) { sum_canonically(parts, part.count); };
  const double first = median(slowest(comm_, 3, prepare, run));
  return median(slowest(comm_, iterations_for(first), prepare, run)) * 1e-3;
}

std::string AllreduceBound::describe() const {
  if (hosts_ == 1) return "the same additions in private memory, all ranks at once";
  return fmt::format("2(n-1)/n of the bytes at {:.3f} GB/s between {} hosts", bytes_per_s_ * 1e-9,
                     hosts_);
}

}  // namespace lockstep
