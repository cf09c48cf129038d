// The reducers that send messages between ranks: one exchange per bucket, several under way at
// once.
#include <algorithm>
#include <utility>

#include "collectives/node/backoff.h"
#include "collectives/reducers/reducers.h"
#include "collectives/schedule_run.h"

namespace lockstep {
namespace {

class ExchangeReducer : public HostReducer {
 public:
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

std::size_t chunk_for(const Comm& comm) {
  return comm.node().size() == comm.size() ? kChunkWithinHost : kChunkBetweenHosts;
}

std::unique_ptr<Reducer> make_exchange_reducer(const ReducerSpec& spec, std::string_view name,
                                               bool canonical, Exchanges exchanges,
                                               Memory residual) {
  return std::make_unique<ExchangeReducer>(spec, name, canonical, std::move(exchanges),
                                           std::move(residual));
}

std::unique_ptr<Reducer> make_scheduled_reducer(const AlgorithmEntry& entry,
                                                const ReducerSpec& spec) {
  return make_exchange_reducer(spec, entry.name, entry.canonical(spec.comm.size()),
                               make_runs(spec, spec.comm, entry.algorithm));
}

Exchanges make_runs(const ReducerSpec& spec, const Comm& comm, Algorithm algorithm) {
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
