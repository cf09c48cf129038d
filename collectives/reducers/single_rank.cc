// The reducer of one rank whose gradients lie in memory that the host may not touch: nothing is
// added. All order is in streams, so that a step can be repeated as a graph.
#include "collectives/reducers/reducers.h"

namespace lockstep {
namespace {

class LoneReducer : public Reducer {
 public:
  explicit LoneReducer(const ReducerSpec& spec)
      : stream_(spec.device.stream(Priority::high)),
        gradients_(spec.device.allocate(spec.count * sizeof(float), Place::device)) {
    for (std::size_t i = 0; i < spec.buckets.size(); ++i) ready_.push_back(spec.device.event());
    traits_ = {.name = "alone",
               .description = "none (1 rank)",
               .bytes = spec.count * sizeof(float),
               .canonical = true,
               .in_stream = true};
  }
  ~LoneReducer() override {
    try {
      stream_->synchronize();
    } catch (...) {  // the caller who waited for the work has seen it
    }
  }

  float* gradients() override { return reinterpret_cast<float*>(gradients_.get()); }
  void written(int bucket, Stream& writer) override { ready_[bucket]->record(writer); }
  void start(int bucket) override { ready_[bucket]->wait(*stream_); }
  bool advance() override { return false; }
  bool done(int) const override { return true; }
  void finish(int) override {}
  Stream& stream() override { return *stream_; }

 private:
  std::unique_ptr<Stream> stream_;
  Memory gradients_;
  std::vector<std::unique_ptr<Event>> ready_;
};

}  // namespace

std::unique_ptr<Reducer> make_lone_reducer(const ReducerSpec& spec) {
  return std::make_unique<LoneReducer>(spec);
}

}  // namespace lockstep
