#include "bench/allreduce_timing.h"

#include <algorithm>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/reducer.h"
#include "collectives/sum.h"
#include "src/clock.h"
#include "src/round_up.h"

namespace lockstep {
namespace {

/// Something that sums buckets.
struct Subject {
  std::function<float*(int bucket)> place;
  std::function<void(int bucket)> run;
};

/// Such integers that every order of adding gives the same bits.
float part(int rank, std::int64_t i, int iteration) {
  return static_cast<float>((rank + 1) * (i % 61 + 1) + iteration % 7);
}

/// Nanoseconds of each of `iterations` calls, those of the slowest rank.
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
  const std::vector<std::uint64_t> all = comm.all_gather(std::span<const std::uint64_t>(own));
  std::vector<double> most(own.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    most[i % own.size()] = std::max(most[i % own.size()], static_cast<double>(all[i]));
  return most;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// As many iterations as fit: the same on all ranks.
int iterations_for(double ns) { return static_cast<int>(std::clamp(150e6 / ns, 7.0, 2000.0)); }

std::int64_t count_wrong(const Comm& comm, const Subject& subject, std::int64_t count) {
  float* values = subject.place(0);
  for (std::int64_t i = 0; i < count; ++i) values[i] = part(comm.rank(), i, 3);
  comm.barrier();
  subject.run(0);
  const int ranks = comm.size();
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto sum = static_cast<float>(ranks * (ranks + 1) / 2 * (i % 61 + 1) + 3 * ranks);
    wrong += values[i] != sum;
  }
  return comm.sum(wrong);
}

AllreduceRow time(const Comm& comm, const Subject& subject, std::int64_t count, int buckets,
                  const TimingOptions& options) {
  const auto prepare = [&](int i) {
    std::fill_n(subject.place(i % buckets), count, part(comm.rank(), i, i));
  };
  const auto run = [&](int i) { subject.run(i % buckets); };
  int iterations = options.iterations;
  const double first = median(slowest(comm, 3, prepare, run));
  if (iterations == 0) iterations = iterations_for(first);
  std::vector<double> ns = slowest(comm, iterations, prepare, run);
  std::sort(ns.begin(), ns.end());
  AllreduceRow row;
  row.bytes = count * static_cast<std::int64_t>(sizeof(float));
  row.median_us = ns[ns.size() / 2] * 1e-3;
  row.p95_us = ns[ns.size() * 95 / 100] * 1e-3;
  row.max_us = ns.back() * 1e-3;
  if (options.check) row.wrong = count_wrong(comm, subject, count);
  return row;
}

}  // namespace

AllreduceRow time_allreduce(const Comm& comm, const std::string& name, std::int64_t bytes,
                            const TimingOptions& options) {
  const std::int64_t count = bytes / static_cast<std::int64_t>(sizeof(float));
  const int buckets = static_cast<int>(std::clamp<std::int64_t>((32 << 20) / bytes, 1, 8));
  const std::int64_t apart = round_up(count, 1024);
  AllreduceRow row;
  if (name == kPeer) {
    agree(comm, [&] {
      require(count <= static_cast<std::int64_t>(comm.largest_message()),
              "{} takes at most {} elements in one call: give a smaller --max", kPeer,
              comm.largest_message());
    });
    std::vector<float> memory(apart * buckets);
    const auto place = [&](int bucket) { return memory.data() + bucket * apart; };
    row = time(comm,
               {place,
                [&](int bucket) {
                  check(MPI_Allreduce(MPI_IN_PLACE, place(bucket), static_cast<int>(count),
                                      MPI_FLOAT, MPI_SUM, raw(comm)));
                }},
               count, buckets, options);
  } else {
    const auto device = make_cpu_device(1);
    std::vector<Range> ranges;
    for (int bucket = 0; bucket < buckets; ++bucket) ranges.push_back({bucket * apart, count});
    const auto reducer =
        make_reducer(name, {comm.duplicate(), *device, apart * buckets, ranges, ""});
    const auto stream = device->stream();
    row = time(comm,
               {[&](int bucket) { return reducer->gradients() + bucket * apart; },
                [&](int bucket) {
                  reducer->written(bucket, *stream);
                  reducer->start(bucket);
                  reducer->finish(bucket);
                }},
               count, buckets, options);
  }
  row.reducer = name;
  return row;
}

AllreduceBound::AllreduceBound(const Comm& comm) : comm_(comm) {
  const int node_rank = comm.node().rank();
  std::vector<int> leaders;
  const auto own = static_cast<std::uint64_t>(node_rank);
  const std::vector<std::uint64_t> all = comm.all_gather(std::span(&own, 1));
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank] == 0) leaders.push_back(static_cast<int>(rank));
  hosts_ = static_cast<int>(leaders.size());
  if (hosts_ == 1) return;
  // In pieces, as the executor of schedules sends them: a single long message does not fill both
  // directions of a link at once.
  constexpr int kPieces = 16, kPiece = 256 << 10, kBytes = kPieces * kPiece;
  std::vector<char> out(kBytes), in(kBytes);
  std::vector<MPI_Request> requests(2 * kPieces);
  const auto me = std::find(leaders.begin(), leaders.end(), comm.rank()) - leaders.begin();
  const auto neighbour = [&](std::ptrdiff_t i) { return leaders[(i + hosts_) % hosts_]; };
  const std::vector<double> ns = slowest(
      comm, 5, [](int) {},
      [&](int) {
        if (node_rank != 0) return;
        for (std::size_t i = 0; i < kPieces; ++i) {
          check(MPI_Irecv(in.data() + i * kPiece, kPiece, MPI_CHAR, neighbour(me - 1), 0, raw(comm),
                          &requests[i]));
        }
        for (std::size_t i = 0; i < kPieces; ++i) {
          check(MPI_Isend(out.data() + i * kPiece, kPiece, MPI_CHAR, neighbour(me + 1), 0,
                          raw(comm), &requests[kPieces + i]));
        }
        check(MPI_Waitall(2 * kPieces, requests.data(), MPI_STATUSES_IGNORE));
      });
  // The best of them: a bound must not be beaten.
  bytes_per_s_ = kBytes / (*std::min_element(ns.begin(), ns.end()) * 1e-9);
}

std::optional<double> AllreduceBound::operator()(std::int64_t bytes) const {
  const int ranks = comm_.size();
  if (ranks == 1) return std::nullopt;
  if (hosts_ > 1)
    return 2.0 * (hosts_ - 1) / hosts_ * static_cast<double>(bytes) / bytes_per_s_ * 1e6;
  const std::int64_t count = bytes / static_cast<std::int64_t>(sizeof(float));
  const Range slice = slice_of({0, count}, comm_.rank(), ranks);
  const std::int64_t apart = round_up(slice.count, 1024);
  const int buckets = static_cast<int>(std::clamp<std::int64_t>((32 << 20) / bytes, 1, 8));
  std::vector<float> memory(apart * ranks * buckets);
  std::vector<float*> parts(ranks);
  const auto prepare = [&](int i) {
    float* place = memory.data() + i % buckets * apart * ranks;
    for (int rank = 0; rank < ranks; ++rank)
      std::fill_n(parts[rank] = place + rank * apart, slice.count, 1.0f);
  };
  const auto run = [&](int) { sum_canonically(parts, slice.count); };
  const double first = median(slowest(comm_, 3, prepare, run));
  return median(slowest(comm_, iterations_for(first), prepare, run)) * 1e-3;
}

std::string AllreduceBound::describe() const {
  if (hosts_ == 1) return "the same additions in private memory, all ranks at once";
  return fmt::format("2(n-1)/n of the bytes at {:.3f} GB/s between {} hosts", bytes_per_s_ * 1e-9,
                     hosts_);
}

}  // namespace lockstep
