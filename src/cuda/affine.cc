#include "src/cuda/affine.h"

namespace lockstep {

std::unique_ptr<AffinePlan> make_cuda_convolution(const ConvolutionSpec&) {
  throw Error("this build has no convolution and no dense layer for GPUs: choose --device cpu");
}

std::unique_ptr<AffinePlan> make_cuda_dense(const DenseSpec&) {
  throw Error("this build has no convolution and no dense layer for GPUs: choose --device cpu");
}

}  // namespace lockstep
