// The menu of layers: one factory each. A layer is one file in net/layers and one line here.
#pragma once

#include <memory>

#include "net/chain.h"

namespace lockstep {

/// How a linear layer's parameters begin and are held down.
struct AffineInit {
  /// Of the truncated normal.
  float weight_deviation = 0.05f;
  float bias = 0;
  /// On the weights.
  float l2 = 0;
  /// Without biases where a normalisation follows that would take them off again.
  bool biases = true;
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

/// The mean of each channel: N, C of N, H, W, C.
std::unique_ptr<Layer> global_average_pool();

/// y = x / (bias + alpha * sum over 2 * radius + 1 channels of x^2)^beta.
std::unique_ptr<Layer> response_norm(std::int64_t radius, float bias, float alpha, float beta);

/// y = max(x, 0).
std::unique_ptr<Layer> relu();

/// In training each value is dropped, with probability `rate`, or else divided by 1 - rate; in
/// evaluation nothing happens. Which values are dropped belongs to the sample, its place in the
/// stream and the layer's name.
std::unique_ptr<Layer> dropout(float rate);

struct BatchNormOptions {
  /// How much the running mean and variance take of each step's.
  float follow = 0.1f;
  /// Added to the variance.
  float epsilon = 1e-5f;
};

/// y = gamma * (x - mean) / sqrt(variance + epsilon) + beta for each channel (or feature), with
/// mean and variance of the shard in training, so that they do not depend on the number of ranks,
/// and running ones in evaluation. Parameters gamma and beta; statistics mean and variance.
std::unique_ptr<Layer> batch_norm(BatchNormOptions options = {});

/// One layer after the other.
std::unique_ptr<Layer> chain(NamedLayers layers);

/// y = x + branch(x); with `shortcut`, y = shortcut(x) + branch(x).
std::unique_ptr<Layer> residual(NamedLayers branch, NamedLayers shortcut = {});

}  // namespace lockstep
