// A small residual network: two blocks with normalisation and ReLU in front of their convolutions,
// as in He, Zhang, Ren, Sun, "Identity mappings in deep residual networks", ECCV 2016, and dropout
// in front of the last layer.

#include <cmath>

#include "net/layers.h"
#include "net/model.h"

namespace lockstep {
namespace {

constexpr float kDecay = 0.0005f;

/// With a deviation that keeps the size of what passes through a ReLU, after He et al., 2015.
std::unique_ptr<Layer> filters(std::int64_t count, std::int64_t kernel, std::int64_t channels) {
  const auto inputs = static_cast<float>(kernel * kernel * channels);
  return convolution(count, kernel, /*relu=*/false,
                     {.weight_deviation = std::sqrt(2 / inputs), .l2 = kDecay, .biases = false});
}

NamedLayers branch(std::int64_t from, std::int64_t to) {
  NamedLayers layers;
  layers.emplace_back("norm1", batch_norm({.activation = Activation::relu}));
  layers.emplace_back("conv1", filters(to, 3, from));
  layers.emplace_back("norm2", batch_norm({.activation = Activation::relu}));
  layers.emplace_back("conv2", filters(to, 3, to));
  return layers;
}

NamedLayers build(Shape sample, int classes) {
  NamedLayers shortcut;
  shortcut.emplace_back("conv", filters(64, 1, 32));
  NamedLayers layers;
  layers.emplace_back("conv", filters(32, 3, sample[3]));
  layers.emplace_back("block1", residual(branch(32, 32)));
  layers.emplace_back("pool", max_pool(3, 2, /*relu=*/false));
  layers.emplace_back("block2", residual(branch(32, 64), std::move(shortcut)));
  layers.emplace_back("norm", batch_norm({.activation = Activation::relu}));
  layers.emplace_back("average", global_average_pool());
  layers.emplace_back("dropout", dropout(0.2f));
  layers.emplace_back("softmax_linear",
                      dense(classes, /*relu=*/false, {.weight_deviation = 0.1f, .l2 = kDecay}));
  return layers;
}

}  // namespace

ModelEntry resnet_small() {
  return {"resnet_small",
          "a small residual network with batch normalisation and dropout: 6 convolutions, 0.08 M "
          "parameters",
          {1, 24, 24, 3},
          /*any_image=*/true,
          build};
}

}  // namespace lockstep
