// The reducer of one rank whose gradients lie in memory that the host may not touch: nothing is
// added. All order is in streams, so that a step can be repeated as a graph.
#include "collectives/reducers/reducers.h"

namespace lockstep {
namespace {

class LoneReducer : public StreamReducer {
 public:
  explicit LoneReducer(const ReducerSpec& spec)
      : StreamReducer(spec),
        gradients_(spec.device.allocate(spec.count * sizeof(float), Place::device)) {
    traits_ = {.name = "alone",
               .description = "none (1 rank)",
               .bytes = spec.count * sizeof(float),
               .canonical = true,
               .rows = {gradients()},
               .in_stream = true};
  }
  ~LoneReducer() override {
    try {
      stream_->synchronize();
    } catch (...) {  // the caller who waited for the work has seen it
    }
  }

  float* gradients() override { return reinterpret_cast<float*>(gradients_.get()); }

 private:
  Memory gradients_;
};

}  // namespace

std::unique_ptr<Reducer> make_lone_reducer(const ReducerSpec& spec) {
  return std::make_unique<LoneReducer>(spec);
}

}  // namespace lockstep
