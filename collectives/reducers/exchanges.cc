// The reducers of messages between ranks: one exchange per bucket, all of them under way at once if
// need be. That of every algorithm carries out its schedule; direct has sums of 16 bits too.
#include <algorithm>
#include <utility>

#include "collectives/node/backoff.h"
#include "collectives/reducers/direct_all_reduce.h"
#include "collectives/reducers/reducers.h"
#include "collectives/schedule_run.h"

namespace lockstep {
namespace {

using Exchanges = std::vector<std::unique_ptr<Exchange>>;

class ExchangeReducer : public HostReducer {
 public:
  /// `exchanges`: by bucket; `kept`: null, or the memory of ReducerTraits::residual.
  ExchangeReducer(const ReducerSpec& spec, std::string_view name, bool canonical,
                  Exchanges exchanges, Memory kept)
      : HostReducer(spec),
        gradients_(spec.device.allocate(gradient_bytes(), Place::host)),
        kept_(std::move(kept)),
        exchanges_(std::move(exchanges)) {
    const std::string wire = kept_ ? fmt::format("; {} between them", name_of(spec.wire)) : "";
    traits_ = {.name = name,
               .description = fmt::format("{} ({}{})", name, describe_ranks(spec), wire),
               .bytes = gradient_bytes() * (kept_ ? 2 : 1),
               .canonical = canonical,
               .speaks_mpi = true,
               .residual = reinterpret_cast<float*>(kept_.get())};
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
  Memory gradients_, kept_;
  Exchanges exchanges_;
};

}  // namespace

std::unique_ptr<Reducer> make_scheduled_reducer(const AlgorithmEntry& entry,
                                                const ReducerSpec& spec) {
  return std::make_unique<ExchangeReducer>(spec, entry.name, entry.canonical(spec.comm.size()),
                                           make_runs(spec, spec.comm, entry.algorithm), Memory());
}

std::unique_ptr<Reducer> make_direct_reducer(const ReducerSpec& spec) {
  Memory kept = make_residual(spec, spec.comm.size());
  Exchanges sums = make_direct_all_reduces(spec, spec.comm, reinterpret_cast<float*>(kept.get()));
  return std::make_unique<ExchangeReducer>(spec, "direct", kept == nullptr, std::move(sums),
                                           std::move(kept));
}

Memory make_residual(const ReducerSpec& spec, int senders) {
  if (spec.wire == Type::f32 || senders == 1) return Memory();
  return spec.device.allocate(spec.count * sizeof(float), Place::host);
}

std::vector<std::unique_ptr<Exchange>> make_direct_all_reduces(const ReducerSpec& spec,
                                                               const Comm& comm, float* kept) {
  Exchanges sums;
  const std::size_t chunk = chunk_for(comm);
  for (const Range& bucket : spec.buckets) {
    const std::int64_t exact = std::clamp<std::int64_t>(spec.exact - bucket.begin, 0, bucket.count);
    sums.push_back(std::make_unique<DirectAllReduce>(
        comm, bucket.count, exact, spec.wire, spec.overflows,
        kept == nullptr ? nullptr : kept + bucket.begin, chunk, static_cast<int>(sums.size())));
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
