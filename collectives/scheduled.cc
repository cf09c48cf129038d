// The reducer of every algorithm: one Run per bucket, all of them under way at once if need be.
#include <sched.h>

#include "collectives/reducers.h"
#include "collectives/run.h"

namespace lockstep {
namespace {

class ScheduledReducer : public Reducer {
 public:
  ScheduledReducer(const AlgorithmEntry& algorithm, const ReducerSpec& spec)
      : algorithm_(algorithm), spec_(spec), gradients_(allocate_gradients(spec.count)) {
    for (std::size_t bucket = 0; bucket < spec.buckets.size(); ++bucket) {
      const Schedule schedule =
          algorithm.algorithm(spec.comm.rank(), spec.comm.size(), spec.buckets[bucket].count);
      runs_.emplace_back(spec.comm, schedule, static_cast<int>(bucket));
    }
  }

  float* gradients() override { return gradients_.get(); }

  void start(int bucket) override {
    run(bucket).start(gradients() + spec_.buckets[static_cast<std::size_t>(bucket)].begin);
  }

  bool advance() override {
    bool busy = false;
    for (Run& each : runs_) busy |= each.advance();
    return busy;
  }

  bool done(int bucket) const override { return runs_[static_cast<std::size_t>(bucket)].done(); }

  void finish(int bucket) override {
    while (advance() && !done(bucket)) sched_yield();  // ranks may outnumber cores
  }

  bool canonical() const override { return algorithm_.canonical(spec_.comm.size()); }
  bool speaks_mpi() const override { return true; }
  std::size_t bytes() const override {
    std::size_t total = static_cast<std::size_t>(spec_.count) * sizeof(float);
    for (const Run& each : runs_) total += each.bytes();
    return total;
  }
  std::string_view name() const override { return algorithm_.name; }
  std::string describe() const override {
    return fmt::format("{} ({})", algorithm_.name, describe_ranks(spec_));
  }

 private:
  Run& run(int bucket) { return runs_[static_cast<std::size_t>(bucket)]; }

  const AlgorithmEntry& algorithm_;
  ReducerSpec spec_;
  std::unique_ptr<float[], void (*)(float*)> gradients_;
  std::vector<Run> runs_;
};

}  // namespace

std::unique_ptr<Reducer> make_scheduled_reducer(const AlgorithmEntry& algorithm,
                                                const ReducerSpec& spec) {
  return std::make_unique<ScheduledReducer>(algorithm, spec);
}

}  // namespace lockstep
