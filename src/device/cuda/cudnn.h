// cuDNN's convolutions. Free of cuDNN's headers: only cudnn.cc includes its front end, which takes
// half a minute to compile.
#pragma once

#include <memory>
#include <string>

#include "src/device/cuda/plan.h"

namespace lockstep::cuda {

class Cudnn : public Library {
 public:
  /// On the calling thread's device. With `properties`, a result of properties(), for a device that
  /// this machine lacks: then everything works except Plan::run(). Throws Error with cuDNN's
  /// reason.
  explicit Cudnn(Numerics numerics, const std::string& properties = {});
  ~Cudnn() override;

  /// Without engines that are compiled at run time, which takes up to a second each, and without
  /// those whose workspace exceeds 1 GiB.
  Plans plans(const Convolution& work, std::size_t most) const override;
  std::string version() const override;
  /// The device's properties in cuDNN's JSON.
  std::string properties() const;

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace lockstep::cuda
