// Dense layers by cuBLASLt, bias and ReLU in the kernel that multiplies. Free of cuBLAS' headers.
#pragma once

#include <memory>
#include <string>

#include "src/device/cuda/plan.h"

namespace lockstep::cuda {

/// Takes Convolution::dense() alone.
class Cublaslt : public Library {
 public:
  /// On the device that the calling thread has chosen. Throws Error with cuBLAS' reason.
  explicit Cublaslt(Numerics numerics);
  ~Cublaslt() override;

  Plans plans(const Convolution& work, std::size_t most) const override;
  std::string version() const override;

 private:
  Numerics numerics_;
  /// cublasLtHandle_t.
  void* handle_ = nullptr;
};

}  // namespace lockstep::cuda
