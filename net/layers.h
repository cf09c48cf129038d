// The registry of layers: a factory each. A layer is one file in net/layers and one row here.
#pragma once

#include <memory>

#include "net/chain.h"

namespace lockstep {

/// The deviation sqrt(2 / inputs) or sqrt(2 / outputs) of a window, which keeps the variance of
/// values or of gradients through a ReLU (He et al., 2015).
enum class He { none, inputs, outputs };

/// The initial parameters of a linear layer, and their decay.
struct AffineInit {
  /// Deviation of the truncated normal distribution.
  float weight_deviation = 0.05f;
  /// Uniform instead, below sqrt(6 / (inputs + outputs of a window)): Keras' default, after Glorot
  /// and Bengio, 2010.
  bool glorot = false;
  /// Replaces weight_deviation unless it is `none`.
  He he = He::none;
  /// The deviation sqrt(1 / inputs) of a window instead, which keeps the variance of values (LeCun
  /// et al., 1998).
  bool lecun = false;
  /// Above 0: uniform instead, between this and its negative.
  float uniform = 0;
  /// Each of the first filters passes one channel through (Init::dirac).
  bool dirac = false;
  float bias = 0;
  /// Decay of the weights.
  float l2 = 0;
  /// Whether there are biases. A normalisation after the layer would subtract them again.
  bool biases = true;
  /// Whether the weights are frozen.
  bool frozen = false;
};

/// The padding around an image or a sequence. `same`: out = ceil(in / stride), in a pool with as
/// few elements as possible, as in TensorFlow. `valid`: none. `centred`: kernel / 2 elements on
/// both ends, as in PyTorch.
enum class Padding { same, valid, centred };

struct ConvolutionOptions {
  std::int64_t stride = 1;
  /// Elements from one tap to the next.
  std::int64_t dilation = 1;
  /// Equal parts of the channels and of the filters. A filter sees only the channels of its part.
  std::int64_t groups = 1;
  /// `same` needs an odd kernel, and pads both ends alike.
  Padding padding = Padding::same;
};

/// y = x * filters + bias [, ReLU]; parameters weights (filters, kernel, kernel, channels / groups)
/// and biases. For N, L, C it is 1-d: weights (filters, kernel, channels / groups).
std::unique_ptr<Layer> convolution(std::int64_t filters, std::int64_t kernel, bool relu,
                                   AffineInit init, ConvolutionOptions options = {});

/// y = x * weights^T + bias [, ReLU] over all features of a sample; parameters weights (features,
/// inputs) and biases.
std::unique_ptr<Layer> dense(std::int64_t features, bool relu, AffineInit init);

/// The same without a ReLU over the last extent: from N, ..., inputs to N, ..., features.
std::unique_ptr<Layer> linear(std::int64_t features, AffineInit init);

/// Maximum over kernel x kernel windows, or along L of N, L, C. With `relu`, the maximum of that
/// and 0. Padding::valid has one short window if the image is smaller than the kernel.
std::unique_ptr<Layer> max_pool(std::int64_t kernel, std::int64_t stride, bool relu,
                                Padding padding = Padding::same);

/// The mean over the elements of the same windows.
std::unique_ptr<Layer> average_pool(std::int64_t kernel, std::int64_t stride,
                                    Padding padding = Padding::same);

/// The mean, or the largest value, of each channel: from N, H, W, C or N, L, C to N, C.
std::unique_ptr<Layer> global_average_pool();
std::unique_ptr<Layer> global_max_pool();

/// y = x / (bias + alpha * sum over 2 * radius + 1 channels of x^2)^beta.
std::unique_ptr<Layer> response_norm(std::int64_t radius, float bias, float alpha, float beta);

/// y = max(x, 0).
std::unique_ptr<Layer> relu();

/// y = x * P(a standard normal variable is below x), and y = x / (1 + e^-x).
std::unique_ptr<Layer> gelu();
std::unique_ptr<Layer> silu();

/// y = min(max(x / 6 + 1 / 2, 0), 1), and x times that.
std::unique_ptr<Layer> hard_sigmoid();
std::unique_ptr<Layer> hard_swish();

/// y = factor * x + offset.
std::unique_ptr<Layer> rescale(float factor, float offset);

/// From N and any extents to N, features.
std::unique_ptr<Layer> flatten();

/// Every stride-th element along H and W, with zeros after its channels up to `channels`.
std::unique_ptr<Layer> subsample(std::int64_t stride, std::int64_t channels);

/// y = e^x / sum of e^x over the last extent.
std::unique_ptr<Layer> softmax();

/// From N, L words (Type::i32) to N, L, features: each word's row of the parameter vectors
/// (vocabulary, features). The first layer of a model. The data set ensures words < vocabulary.
std::unique_ptr<Layer> embedding(std::int64_t vocabulary, std::int64_t features);

/// In training, each value is dropped with probability `rate`, or else divided by 1 - rate. In
/// evaluation, y = x. The sample's position in the stream and the layer's name decide which values
/// are dropped.
std::unique_ptr<Layer> dropout(float rate);

/// In training, each sample is dropped as a whole with probability `rate`, or else divided by
/// 1 - rate. For the branch of a residual(). The random numbers are tied to the sample as in
/// dropout().
std::unique_ptr<Layer> stochastic_depth(float rate);

/// y = x * factor of each channel and sample. The factors are the channels' means after two 1x1
/// convolutions `fc1` (to `squeezed` filters, then ReLU) and `fc2`, and a hard_sigmoid().
std::unique_ptr<Layer> squeeze_excitation(std::int64_t channels, std::int64_t squeezed);

/// y = x * values, one for each channel. Parameter values (channels, 1, 1), which begin at `begin`.
std::unique_ptr<Layer> layer_scale(float begin);

/// From N, L, 3 * C, the queries, keys and values of `heads` heads, to N, L, C: for each head and
/// query the mean of the values, weighted by softmax(query * keys / sqrt(C / heads)).
std::unique_ptr<Layer> attention(int heads);

/// From N, L, C or N, H, W, C to N, L + 1, C: in front of each sample stands the parameter values
/// (1, 1, C), which begins at 0.
std::unique_ptr<Layer> class_token();

/// y = x + values, a parameter (1, L, C); initial values have the given deviation.
std::unique_ptr<Layer> position_embedding(float deviation);

/// From N, L, C to N, C: the first element of each sequence.
std::unique_ptr<Layer> first_token();

/// A function of each value. `none`: y = x.
enum class Activation { none, relu, gelu, hard_swish };

struct BatchNormOptions {
  /// The weight of a step's mean and variance in the running ones.
  float follow = 0.1f;
  /// Added to the variance.
  float epsilon = 1e-5f;
  /// Whether gamma is a parameter. Else it is 1.
  bool scale = true;
  /// The function after it. The result is bitwise that of a layer of its own.
  Activation activation = Activation::none;
};

/// y = gamma * (x - mean) / sqrt(variance + epsilon) + beta for each channel (or feature) [, ReLU,
/// GELU or hard swish]. In training, mean and variance are the shard's, so they do not depend on the number of ranks, or
/// those of all shards (TrainingBatch::across). In evaluation they are the running ones. Parameters
/// gamma, unless it is 1, and beta; statistics mean and variance.
std::unique_ptr<Layer> batch_norm(BatchNormOptions options = {});

/// y = gamma * (x - mean) / sqrt(variance + epsilon) + beta, with mean and variance of each row:
/// the last extent. Parameters gamma and beta.
std::unique_ptr<Layer> layer_norm(float epsilon = 1e-5f);

/// Layers in a row.
std::unique_ptr<Layer> chain(NamedLayers layers);

/// y = x + branch(x) [, ReLU]; with `shortcut`, y = shortcut(x) + branch(x) [, ReLU].
/// Names of the shortcut's layers begin with `name`.
std::unique_ptr<Layer> residual(NamedLayers branch, NamedLayers shortcut = {}, bool relu = false,
                                std::string name = "shortcut");

}  // namespace lockstep
