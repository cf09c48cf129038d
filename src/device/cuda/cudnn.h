// cuDNN's convolutions. Free of cuDNN's headers: cudnn.cc alone reads its front end, which takes
// half a minute to compile.
#pragma once

#include <memory>
#include <string>

#include "src/device/cuda/plan.h"

namespace lockstep::cuda {

class Cudnn : public Library {
 public:
  /// On the device that the calling thread has chosen; or, with `properties` (what properties()
  /// gives on such a device), for one that is not there: then everything works but Plan::run().
  /// Throws Error with cuDNN's reason.
  explicit Cudnn(Numerics numerics, const std::string& properties = {});
  ~Cudnn() override;

  /// Engines that are compiled at run time are left out: they cost up to a second each.
  Plans plans(const Convolution& work, std::size_t most) const override;
  std::shared_ptr<const Plan> plan(const Convolution& work, std::string_view name) const override;
  std::string version() const override;
  /// Of the device, as cuDNN writes them: JSON.
  std::string properties() const;

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace lockstep::cuda
