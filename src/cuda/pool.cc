#include "src/cuda/pool.h"

namespace lockstep {

std::unique_ptr<MaxPoolPlan> make_cuda_max_pool(const MaxPoolSpec&) {
  throw Error("this build has no pooling for GPUs: choose --device cpu");
}

}  // namespace lockstep
