// What convolution and dense layers share: parameters, plan calls, and the ReLU's part of the
// gradient.
#pragma once

#include <functional>
#include <memory>

#include "net/layers.h"

namespace lockstep {

class AffineLayer : public Layer {
 public:
  AffineLayer(bool relu, AffineInit init) : relu_(relu), init_(init) {}

  void forward(LayerCall& call, View x, View y) override;
  void backward(LayerCall& call, View x, View y, View dy, View dx) override;
  double multiply_adds() const override { return multiply_adds_; }
  bool keeps_dy() const override { return !relu_; }
  std::string implementation() const override { return plan_->implementation(); }

 protected:
  /// To be called at the end of setup(): asks for parameters and scratch. Where the device cannot
  /// `plan`, its Error begins with the layer's name.
  void finish_setup(Setup& setup, Shape weights,
                    const std::function<std::unique_ptr<AffinePlan>()>& plan, Shape out);

  bool relu_;

 private:
  /// `of`'s second, or what stands for it at `place` behind LayerCall::saved.
  View biases(const LayerCall& call, std::span<const View> of, std::size_t place) const;

  AffineInit init_;
  View no_biases_;
  /// Zeros that nobody writes, and a gradient that nobody reads.
  std::size_t zeros_ = 0, unwanted_ = 0;
  std::unique_ptr<AffinePlan> plan_;
  double multiply_adds_ = 0;
};

}  // namespace lockstep
