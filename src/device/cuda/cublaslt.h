// Dense layers by cuBLASLt, with fused bias and ReLU. Free of cuBLAS' headers.
#pragma once

#include <memory>
#include <string>

#include "src/device/cuda/plan.h"

namespace lockstep::cuda {

/// Supports only Convolution::dense(), also in layers.
class Cublaslt : public Library {
 public:
  /// On the calling thread's device. Throws Error with cuBLAS' reason.
  explicit Cublaslt(Numerics numerics);
  ~Cublaslt() override;

  Plans plans(const Convolution& work, std::size_t most) const override;
  std::string version() const override;

 private:
  Numerics numerics_;
  void* handle_ = nullptr;  ///< cublasLtHandle_t
};

}  // namespace lockstep::cuda
