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
                  const Roots& roots, MakeExchanges make, Memory residual)
      : HostReducer(spec),
        gradients_(spec.device.allocate(gradient_bytes(), Place::host)),
        residual_(std::move(residual)),
        make_(std::move(make)) {
    const std::string wire = residual_ ? fmt::format("; messages in {}", name_of(spec.wire)) : "";
    traits_ = {.name = name,
               .description = fmt::format("{} ({}{})", name, describe_ranks(spec), wire),
               .canonical = canonical,
               .calls_mpi = true,
               .residual = reinterpret_cast<float*>(residual_.get())};
    ExchangeReducer::share(roots);
  }

  float* gradients() override { return reinterpret_cast<float*>(gradients_.get()); }

  void share(const Roots& roots) override {
    // The old memory is freed before the new one is allocated. No message is under way between two
    // steps.
    exchanges_.clear();
    exchanges_ = make_(roots);
    earlier_.clear();
    traits_.rows.clear();
    for (std::size_t row = 1; row < roots.of_rank[spec_.comm.rank()].size(); ++row) {
      earlier_.push_back(spec_.device.allocate(gradient_bytes(), Place::host));
      traits_.rows.push_back(reinterpret_cast<float*>(earlier_.back().get()));
    }
    traits_.rows.push_back(gradients());
    traits_.bytes = gradient_bytes() * (traits_.rows.size() + (residual_ ? 1 : 0));
    for (const auto& each : exchanges_) traits_.bytes += each->bytes();
  }

  void start(int bucket) override {
    rows_.clear();
    for (float* row : traits_.rows) rows_.push_back(row + spec_.buckets[bucket].begin);
    exchanges_[bucket]->start(rows_, rows_.back());
  }

  bool advance() override {
    bool busy = false;
    for (const auto& each : exchanges_) busy |= each->advance();
    return busy;
  }

  bool done(int bucket) const override { return exchanges_[bucket]->done(); }

  void finish(int bucket) override {
    backoff_.begin();
    // Polls all buckets, not only the awaited one. Another rank may wait for a message of another
    // bucket, and most MPIs send and receive only inside MPI calls.
    while (advance() && !done(bucket)) backoff_.between();
  }

 private:
  Backoff backoff_;
  Memory gradients_, residual_;
  std::vector<Memory> earlier_;  ///< rows besides the gradients
  MakeExchanges make_;
  Exchanges exchanges_;
  std::vector<float*> rows_;  ///< of the bucket that starts
};

}  // namespace

std::size_t chunk_for(const Comm& comm) {
  return comm.node().size() == comm.size() ? kChunkWithinHost : kChunkBetweenHosts;
}

std::unique_ptr<Reducer> make_exchange_reducer(const ReducerSpec& spec, std::string_view name,
                                               bool canonical, const Roots& roots,
                                               MakeExchanges make, Memory residual) {
  return std::make_unique<ExchangeReducer>(spec, name, canonical, roots, std::move(make),
                                           std::move(residual));
}

std::unique_ptr<Reducer> make_scheduled_reducer(const AlgorithmEntry& entry,
                                                const ReducerSpec& spec) {
  // A schedule has one row per rank. With several roots a rank adds all its shards first, which is
  // another order.
  const bool canonical = entry.canonical(spec.comm.size()) && roots_of(spec).by_rank();
  return make_exchange_reducer(
      spec, entry.name, canonical, Roots::one_each(spec.comm.size()),
      [spec, &entry](const Roots&) { return make_runs(spec, spec.comm, entry.algorithm); });
}

Exchanges make_runs(const ReducerSpec& spec, const Comm& comm, Algorithm algorithm) {
  Exchanges runs;
  const std::size_t chunk = chunk_for(comm);
  // A tag for each bucket keeps the messages of buckets apart that are under way at once.
  for (const Range& bucket : spec.buckets) {
    runs.push_back(std::make_unique<ScheduleRun>(comm,
                                                 algorithm(comm.rank(), comm.size(), bucket.count),
                                                 chunk, static_cast<int>(runs.size())));
  }
  return runs;
}

}  // namespace lockstep
