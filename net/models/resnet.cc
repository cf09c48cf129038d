// Residual networks for small images. resnet20 and resnet56: He, Zhang, Ren, Sun, "Deep residual
// learning for image recognition", CVPR 2016, 4.2, with shortcuts without parameters (option A);
// published for CIFAR-10: 91.25 % and 93.03 %. resnet18_cifar: the same paper's network for
// ImageNet with a first convolution of 3 x 3 and without the first pool, as is common for CIFAR-10.

#include <cmath>

#include "net/layers.h"
#include "net/model.h"

namespace lockstep {
namespace {

/// A convolution without biases, normalised [, ReLU]. The deviation of its weights keeps the
/// variance of values that pass through a ReLU (He et al., 2015).
void add_convolution(NamedLayers& layers, const std::string& number, std::int64_t filters,
                     std::int64_t kernel, std::int64_t channels, std::int64_t stride, bool relu) {
  const auto inputs = static_cast<float>(kernel * kernel * channels);
  layers.emplace_back("conv" + number,
                      convolution(filters, kernel, /*relu=*/false,
                                  {.weight_deviation = std::sqrt(2 / inputs), .biases = false},
                                  {.stride = stride}));
  layers.emplace_back("norm" + number,
                      batch_norm({.activation = relu ? Activation::relu : Activation::none}));
}

enum class Shortcut { none, subsample, convolution };

std::unique_ptr<Layer> block(std::int64_t channels, std::int64_t filters, std::int64_t stride,
                             Shortcut kind) {
  NamedLayers branch, shortcut;
  add_convolution(branch, "1", filters, 3, channels, stride, /*relu=*/true);
  add_convolution(branch, "2", filters, 3, filters, 1, /*relu=*/false);
  if (kind == Shortcut::subsample) shortcut.emplace_back("zeros", subsample(stride, filters));
  if (kind == Shortcut::convolution)
    add_convolution(shortcut, "", filters, 1, channels, stride, /*relu=*/false);
  return residual(std::move(branch), std::move(shortcut), /*relu=*/true);
}

/// `blocks` in each of `stages` stages, of which each but the first halves the image and doubles
/// the filters.
NamedLayers build(Shape sample, int classes, int stages, int blocks, std::int64_t filters,
                  Shortcut kind) {
  NamedLayers layers;
  add_convolution(layers, "", filters, 3, sample[3], 1, /*relu=*/true);
  std::int64_t channels = filters;
  for (int stage = 1; stage <= stages; ++stage, filters *= 2) {
    for (int number = 1; number <= blocks; ++number) {
      const std::string name = std::to_string(stage) + "_" + std::to_string(number);
      const bool halves = channels != filters;
      layers.emplace_back("block" + name,
                          block(channels, filters, halves ? 2 : 1, halves ? kind : Shortcut::none));
      channels = filters;
    }
  }
  layers.emplace_back("average", global_average_pool());
  layers.emplace_back("out", dense(classes, /*relu=*/false, {.glorot = true}));
  return layers;
}

constexpr std::string_view kRecipe =
    "optimizer = sgd, momentum = 0.9, lr = 0.1, lr-schedule = cosine, weight-decay = 0.0001, "
    "global-batch = 128, steps = 64000, ema = 0";

}  // namespace

ModelEntry resnet20() {
  return {
      .name = "resnet20",
      .about =
          "the residual network of He et al. for CIFAR-10 with 20 layers, 0.27 M "
          "parameters; SGD with momentum, 64,000 steps of 128",
      .sample = {1, 32, 32, 3},
      .any_image = true,
      .build = [](Shape sample,
                  int classes) { return build(sample, classes, 3, 3, 16, Shortcut::subsample); },
      .recipe = kRecipe};
}

ModelEntry resnet56() {
  return {
      .name = "resnet56",
      .about = "the same with 56 layers, 0.85 M parameters",
      .sample = {1, 32, 32, 3},
      .any_image = true,
      .build = [](Shape sample,
                  int classes) { return build(sample, classes, 3, 9, 16, Shortcut::subsample); },
      .recipe = kRecipe};
}

ModelEntry resnet18_cifar() {
  return {
      .name = "resnet18_cifar",
      .about =
          "the residual network of He et al. for ImageNet with 18 layers, as common for "
          "CIFAR-10, 11.2 M parameters; the same recipe",
      .sample = {1, 32, 32, 3},
      .any_image = true,
      .build = [](Shape sample,
                  int classes) { return build(sample, classes, 4, 2, 64, Shortcut::convolution); },
      .recipe = kRecipe};
}

}  // namespace lockstep
