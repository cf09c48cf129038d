// A plan that computes only weight gradients; another plan computes the other passes.
// Only src/device/cpu includes this.
#pragma once

#include <memory>
#include <string>
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
  std::string implementation() const override { return others_->implementation() + own_name_; }

 protected:
  /// `others` is for the same spec. `own_name`: "; weights gradient by lines".
  OtherPasses(std::unique_ptr<AffinePlan> others, std::string own_name)
      : others_(std::move(others)), own_name_(std::move(own_name)) {}

  std::unique_ptr<AffinePlan> others_;

 private:
  std::string own_name_;
};

}  // namespace lockstep
