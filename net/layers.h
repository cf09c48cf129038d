// The menu of layers: one factory each. A layer is one file in net/layers and one line here.
#pragma once

#include <memory>

#include "net/layer.h"

namespace lockstep {

/// How a linear layer's parameters begin and are held down.
struct AffineInit {
  float weight_deviation = 0.05f;  ///< of the truncated normal
  float bias = 0;
  float l2 = 0;  ///< on the weights
};

/// y = x * filters + bias [, ReLU]; parameters weights (filters, kernel, kernel, channels) and
/// biases. Pads to keep the extent.
std::unique_ptr<Layer> convolution(std::int64_t filters, std::int64_t kernel, bool relu,
                                   AffineInit init);

/// y = x * weights^T + bias [, ReLU] over all features of a sample; parameters weights (features,
/// inputs) and biases.
std::unique_ptr<Layer> dense(std::int64_t features, bool relu, AffineInit init);

/// Maximum over kernel x kernel windows, "SAME" padding; with `relu` the maximum of that and 0.
std::unique_ptr<Layer> max_pool(std::int64_t kernel, std::int64_t stride, bool relu);

/// y = x / (bias + alpha * sum over 2 * radius + 1 channels of x^2)^beta.
std::unique_ptr<Layer> response_norm(std::int64_t radius, float bias, float alpha, float beta);

}  // namespace lockstep
