#include "src/cuda/response_norm.h"

namespace lockstep {

std::unique_ptr<ResponseNormPlan> make_cuda_response_norm(const ResponseNormSpec&) {
  throw Error("this build has no response normalisation for GPUs: choose --device cpu");
}

}  // namespace lockstep
