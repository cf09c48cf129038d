// The menu of layers: one factory each. A layer is one file in net/layers and one line here.
#pragma once

#include <memory>

#include "net/chain.h"

namespace lockstep {

/// How a linear layer's parameters begin and are held down.
struct AffineInit {
  /// Of the truncated normal.
  float weight_deviation = 0.05f;
  /// Uniform instead, below sqrt(6 / (inputs + outputs of a window)): Keras' default, after Glorot
  /// and Bengio, 2010.
  bool glorot = false;
  /// Above 0: uniform instead, between this and its negative.
  float uniform = 0;
  /// The first filters let a channel each through (Init::dirac).
  bool dirac = false;
  float bias = 0;
  /// On the weights.
  float l2 = 0;
  /// Without biases where a normalisation follows that would take them off again.
  bool biases = true;
  /// The weights stay as they begin.
  bool frozen = false;
};

/// What stands around an image or a sequence for windows to reach into: as much as keeps the extent
/// but for the stride (out = ceil(in / stride)), or nothing.
enum class Padding { same, valid };

struct ConvolutionOptions {
  std::int64_t stride = 1;
  /// Elements from one tap to the next.
  std::int64_t dilation = 1;
  /// Equal parts of the channels and of the filters; a filter sees the channels of its part alone.
  std::int64_t groups = 1;
  /// `same` wants an odd kernel, and pads both ends alike.
  Padding padding = Padding::same;
};

/// y = x * filters + bias [, ReLU]; parameters weights (filters, kernel, kernel, channels / groups)
/// and biases. Of N, L, C it is 1-d: weights (filters, kernel, channels / groups).
std::unique_ptr<Layer> convolution(std::int64_t filters, std::int64_t kernel, bool relu,
                                   AffineInit init, ConvolutionOptions options = {});

/// y = x * weights^T + bias [, ReLU] over all features of a sample; parameters weights (features,
/// inputs) and biases.
std::unique_ptr<Layer> dense(std::int64_t features, bool relu, AffineInit init);

/// Maximum over kernel x kernel windows, or along L of N, L, C; with `relu` the maximum of that
/// and 0.
std::unique_ptr<Layer> max_pool(std::int64_t kernel, std::int64_t stride, bool relu,
                                Padding padding = Padding::same);

/// The mean over the same windows, of as many elements as are there.
std::unique_ptr<Layer> average_pool(std::int64_t kernel, std::int64_t stride,
                                    Padding padding = Padding::same);

/// The mean, or the largest value, of each channel: N, C of N, H, W, C or N, L, C.
std::unique_ptr<Layer> global_average_pool();
std::unique_ptr<Layer> global_max_pool();

/// y = x / (bias + alpha * sum over 2 * radius + 1 channels of x^2)^beta.
std::unique_ptr<Layer> response_norm(std::int64_t radius, float bias, float alpha, float beta);

/// y = max(x, 0).
std::unique_ptr<Layer> relu();

/// y = x * P(a standard normal number is below x), and y = x / (1 + e^-x).
std::unique_ptr<Layer> gelu();
std::unique_ptr<Layer> silu();

/// y = factor * x + offset.
std::unique_ptr<Layer> rescale(float factor, float offset);

/// N, features of N and whatever extents.
std::unique_ptr<Layer> flatten();

/// Every stride-th element along H and W, and zeros behind its channels, so that there are
/// `channels`.
std::unique_ptr<Layer> subsample(std::int64_t stride, std::int64_t channels);

/// y = e^x / sum of e^x over the last extent.
std::unique_ptr<Layer> softmax();

/// N, L, features of N, L words (Type::i32, below `vocabulary`, which the data set sees to): each
/// word's row of the parameter vectors (vocabulary, features). The first layer of a model.
std::unique_ptr<Layer> embedding(std::int64_t vocabulary, std::int64_t features);

/// In training each value is dropped, with probability `rate`, or else divided by 1 - rate; in
/// evaluation nothing happens. Which values are dropped belongs to the sample, its place in the
/// stream and the layer's name.
std::unique_ptr<Layer> dropout(float rate);

struct BatchNormOptions {
  /// How much the running mean and variance take of each step's.
  float follow = 0.1f;
  /// Added to the variance.
  float epsilon = 1e-5f;
  /// Without: gamma is 1, and no parameter.
  bool scale = true;
  /// A ReLU behind it.
  bool relu = false;
};

/// y = gamma * (x - mean) / sqrt(variance + epsilon) + beta for each channel (or feature), with
/// mean and variance of the shard in training, so that they do not depend on the number of ranks,
/// or of all shards where these train together (TrainingBatch::across), and running ones in
/// evaluation [, ReLU]. Parameters gamma, if it has one, and beta; statistics mean and variance.
std::unique_ptr<Layer> batch_norm(BatchNormOptions options = {});

/// y = gamma * (x - mean) / sqrt(variance + epsilon) + beta, with mean and variance of each row:
/// the last extent. Parameters gamma and beta.
std::unique_ptr<Layer> layer_norm(float epsilon = 1e-5f);

/// One layer after the other.
std::unique_ptr<Layer> chain(NamedLayers layers);

/// y = x + branch(x) [, ReLU]; with `shortcut`, y = shortcut(x) + branch(x) [, ReLU].
std::unique_ptr<Layer> residual(NamedLayers branch, NamedLayers shortcut = {}, bool relu = false);

}  // namespace lockstep
