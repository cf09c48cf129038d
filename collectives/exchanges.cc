// The reducer of every algorithm: one Run per bucket, all of them under way at once if need be.
#include <sched.h>

#include "collectives/reducers.h"
#include "collectives/run.h"

namespace lockstep {
namespace {

class ScheduledReducer : public HostReducer {
 public:
  ScheduledReducer(const AlgorithmEntry& algorithm, const ReducerSpec& spec)
      : HostReducer(spec),
        algorithm_(algorithm),
        gradients_(spec.device.allocate(gradient_bytes(), Place::host)) {
    for (std::size_t bucket = 0; bucket < spec.buckets.size(); ++bucket) {
      const Schedule schedule =
          algorithm.algorithm(spec.comm.rank(), spec.comm.size(), spec.buckets[bucket].count);
      runs_.emplace_back(spec.comm, schedule, static_cast<int>(bucket));
    }
  }

  float* gradients() override { return reinterpret_cast<float*>(gradients_.get()); }

  void start(int bucket) override { run(bucket).start(gradients() + range(bucket).begin); }

  bool advance() override {
    bool busy = false;
    for (Run& each : runs_) busy |= each.advance();
    return busy;
  }

  bool done(int bucket) const override { return runs_[bucket].done(); }

  void finish(int bucket) override {
    while (advance() && !done(bucket)) sched_yield();  // ranks may outnumber cores
  }

  bool canonical() const override { return algorithm_.canonical(spec_.comm.size()); }
  bool speaks_mpi() const override { return true; }
  std::size_t bytes() const override {
    std::size_t total = gradient_bytes();
    for (const Run& each : runs_) total += each.bytes();
    return total;
  }
  std::string_view name() const override { return algorithm_.name; }
  std::string describe() const override {
    return fmt::format("{} ({})", algorithm_.name, describe_ranks(spec_));
  }

 private:
  Run& run(int bucket) { return runs_[bucket]; }

  const AlgorithmEntry& algorithm_;
  Memory gradients_;
  std::vector<Run> runs_;
};

}  // namespace

std::unique_ptr<Reducer> make_scheduled_reducer(const AlgorithmEntry& algorithm,
                                                const ReducerSpec& spec) {
  return std::make_unique<ScheduledReducer>(algorithm, spec);
}

}  // namespace lockstep
