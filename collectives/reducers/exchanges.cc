// The reducers that send messages between ranks: one exchange per bucket, several under way at
// once.
#include <algorithm>
#include <utility>

#include "collectives/node/backoff.h"
#include "collectives/reducers/direct_all_reduce.h"
#include "collectives/reducers/reducers.h"
#include "collectives/schedule_run.h"

namespace lockstep {
namespace {

using Exchanges = std::vector<std::unique_ptr<Exchange>>;

/// Bytes of the chunks between the ranks of `comm`. Collective.
std::size_t chunk_for(const Comm& comm) {
  return comm.node().size() == comm.size() ? kChunkWithinHost : kChunkBetweenHosts;
}

class ExchangeReducer : public HostReducer {
 public:
  /// `exchanges`: by bucket; `residual`: memory of ReducerTraits::residual, or null.
  ExchangeReducer(const ReducerSpec& spec, std::string_view name, bool canonical,
                  Exchanges exchanges, Memory residual)
      : HostReducer(spec),
        gradients_(spec.device.allocate(gradient_bytes(), Place::host)),
        residual_(std::move(residual)),
        exchanges_(std::move(exchanges)) {
    const std::string wire = residual_ ? fmt::format("; messages in {}", name_of(spec.wire)) : "";
    traits_ = {.name = name,
               .description = fmt::format("{} ({}{})", name, describe_ranks(spec), wire),
               .bytes = gradient_bytes() * (residual_ ? 2 : 1),
               .canonical = canonical,
               .calls_mpi = true,
               .residual = reinterpret_cast<float*>(residual_.get())};
    for (const auto& each : exchanges_) traits_.bytes += each->bytes();
  }

  float* gradients() override { return reinterpret_cast<float*>(gradients_.get()); }

  void start(int bucket) override { exchanges_[bucket]->start(gradients() + range(bucket).begin); }

  bool advance() override {
    bool busy = false;
    for (const auto& each : exchanges_) busy |= each->advance();
    return busy;
  }

  bool done(int bucket) const override { return exchanges_[bucket]->done(); }

  void finish(int bucket) override {
    backoff_.begin();
    while (advance() && !done(bucket)) backoff_.between();
  }

 private:
  Backoff backoff_;
  Memory gradients_, residual_;
  Exchanges exchanges_;
};

}  // namespace

std::unique_ptr<Reducer> make_scheduled_reducer(const AlgorithmEntry& entry,
                                                const ReducerSpec& spec) {
  return std::make_unique<ExchangeReducer>(spec, entry.name, entry.canonical(spec.comm.size()),
                                           make_runs(spec, spec.comm, entry.algorithm), Memory());
}

std::unique_ptr<Reducer> make_direct_reducer(const ReducerSpec& spec) {
  Memory residual = make_residual(spec, spec.comm.size());
  Exchanges sums =
      make_direct_all_reduces(spec, spec.comm, reinterpret_cast<float*>(residual.get()));
  return std::make_unique<ExchangeReducer>(spec, "direct", residual == nullptr, std::move(sums),
                                           std::move(residual));
}

Memory make_residual(const ReducerSpec& spec, int senders) {
  if (spec.wire == Type::f32 || senders == 1) return Memory();
  return spec.device.allocate(spec.count * sizeof(float), Place::host);
}

std::vector<std::unique_ptr<Exchange>> make_direct_all_reduces(const ReducerSpec& spec,
                                                               const Comm& comm, float* residual) {
  Exchanges sums;
  const std::size_t chunk = chunk_for(comm);
  for (const Range& bucket : spec.buckets) {
    const std::int64_t exact = std::clamp<std::int64_t>(spec.exact - bucket.begin, 0, bucket.count);
    sums.push_back(
        std::make_unique<DirectAllReduce>(comm, bucket.count, exact, spec.wire, spec.overflows,
                                          residual == nullptr ? nullptr : residual + bucket.begin,
                                          chunk, static_cast<int>(sums.size())));
  }
  return sums;
}

std::vector<std::unique_ptr<Exchange>> make_runs(const ReducerSpec& spec, const Comm& comm,
                                                 Algorithm algorithm) {
  Exchanges runs;
  const std::size_t chunk = chunk_for(comm);
  for (const Range& bucket : spec.buckets) {
    runs.push_back(std::make_unique<ScheduleRun>(comm,
                                                 algorithm(comm.rank(), comm.size(), bucket.count),
                                                 chunk, static_cast<int>(runs.size())));
  }
  return runs;
}

}  // namespace lockstep
