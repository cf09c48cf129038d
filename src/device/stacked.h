// Several dense layers of one shape by the plan of one, one after the other.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "src/device/device.h"

namespace lockstep {

class StackedDense : public AffinePlan {
 public:
  /// `one`: the plan of one of `layers` layers.
  StackedDense(std::unique_ptr<AffinePlan> one, std::int64_t layers)
      : one_(std::move(one)), layers_(layers) {}

  void forward(Stream& stream, View x, View w, View, View y, void* scratch) override {
    for (std::int64_t i = 0; i < layers_; ++i)
      one_->forward(stream, part(x, i), part(w, i), {}, part(y, i), scratch);
  }
  void backward_data(Stream& stream, View dy, View w, View dx, void* scratch) override {
    for (std::int64_t i = 0; i < layers_; ++i)
      one_->backward_data(stream, part(dy, i), part(w, i), part(dx, i), scratch);
  }
  void backward_weights(Stream& stream, View x, View dy, View dw, View, void* scratch) override {
    for (std::int64_t i = 0; i < layers_; ++i)
      one_->backward_weights(stream, part(x, i), part(dy, i), part(dw, i), {}, scratch);
  }
  std::size_t scratch_bytes() const override { return one_->scratch_bytes(); }
  std::string implementation() const override { return one_->implementation(); }

  /// The spec of one of the layers in `all`, which have no biases.
  static DenseSpec one_of(DenseSpec all) {
    expect(!all.biases && all.input.x[0] % all.layers == 0, "stacked layers have equal rows");
    all.input.x = all.input.x.with_batch(all.input.x[0] / all.layers);
    all.layers = 1;
    return all;
  }

 private:
  View part(View all, std::int64_t i) const {
    View view = all;
    view.shape = all.shape.with_batch(all.shape[0] / layers_);
    view.data = static_cast<std::byte*>(all.data) + static_cast<std::size_t>(i) * view.bytes();
    return view;
  }

  std::unique_ptr<AffinePlan> one_;
  std::int64_t layers_;
};

}  // namespace lockstep
