// A plan that computes only weight gradients; another plan computes the other passes.
// Only src/device/cpu includes this.
#pragma once

#include <memory>
#include <utility>

#include "src/device/device.h"

namespace lockstep {

class OtherPasses : public AffinePlan {
 public:
  void forward(Stream& stream, View x, View w, View b, View y, void* scratch) override {
    others_->forward(stream, x, w, b, y, scratch);
  }
  void backward_data(Stream& stream, View dy, View w, View dx, void* scratch) override {
    others_->backward_data(stream, dy, w, dx, scratch);
  }

 protected:
  /// `others` is for the same spec.
  explicit OtherPasses(std::unique_ptr<AffinePlan> others) : others_(std::move(others)) {}

  std::unique_ptr<AffinePlan> others_;
};

}  // namespace lockstep
