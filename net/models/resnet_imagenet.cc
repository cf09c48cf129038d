// Residual networks for photos: He, Zhang, Ren, Sun, "Deep residual learning for image
// recognition", CVPR 2016, table 1, with projections as shortcuts (option B). resnet50 halves
// images in the 3 x 3 convolution of a block ("v1.5"), as torchvision's does. Names, shapes and
// padding are torchvision's, so that its weights fit (--init).

#include <cmath>

#include <fmt/format.h>

#include "net/layers.h"
#include "net/model.h"

namespace lockstep {
namespace {

/// A convolution without biases, normalised [, ReLU]. The deviation of its weights keeps the
/// variance of gradients (He et al., 2015).
void add_convolution(NamedLayers& layers, const std::string& convolution_name,
                     const std::string& norm_name, std::int64_t filters, std::int64_t kernel,
                     std::int64_t stride, bool relu) {
  const auto outputs = static_cast<float>(kernel * kernel * filters);
  layers.emplace_back(convolution_name,
                      convolution(filters, kernel, /*relu=*/false,
                                  {.weight_deviation = std::sqrt(2 / outputs), .biases = false},
                                  {.stride = stride}));
  layers.emplace_back(norm_name,
                      batch_norm({.activation = relu ? Activation::relu : Activation::none}));
}

/// A block of width `filters` whose output has `expansion` times as many channels.
std::unique_ptr<Layer> block(std::int64_t channels, std::int64_t filters, std::int64_t expansion,
                             std::int64_t stride) {
  NamedLayers branch, shortcut;
  if (expansion == 1) {
    add_convolution(branch, "conv1", "bn1", filters, 3, stride, /*relu=*/true);
    add_convolution(branch, "conv2", "bn2", filters, 3, 1, /*relu=*/false);
  } else {
    add_convolution(branch, "conv1", "bn1", filters, 1, 1, /*relu=*/true);
    add_convolution(branch, "conv2", "bn2", filters, 3, stride, /*relu=*/true);
    add_convolution(branch, "conv3", "bn3", filters * expansion, 1, 1, /*relu=*/false);
  }
  if (channels != filters * expansion)
    add_convolution(shortcut, "0", "1", filters * expansion, 1, stride, /*relu=*/false);
  return residual(std::move(branch), std::move(shortcut), /*relu=*/true, "downsample");
}

NamedLayers build(int classes, const std::vector<int>& blocks, std::int64_t expansion) {
  NamedLayers layers;
  add_convolution(layers, "conv1", "bn1", 64, 7, 2, /*relu=*/true);
  layers.emplace_back("maxpool", max_pool(3, 2, /*relu=*/false, Padding::centred));
  std::int64_t channels = 64, filters = 64;
  for (std::size_t stage = 0; stage < blocks.size(); ++stage, filters *= 2) {
    for (int number = 0; number < blocks[stage]; ++number) {
      const std::int64_t stride = stage > 0 && number == 0 ? 2 : 1;
      layers.emplace_back(fmt::format("layer{}.{}", stage + 1, number),
                          block(channels, filters, expansion, stride));
      channels = filters * expansion;
    }
  }
  layers.emplace_back("avgpool", global_average_pool());
  layers.emplace_back("fc", dense(classes, /*relu=*/false, {.glorot = true}));
  return layers;
}

constexpr std::string_view kRecipe =
    "optimizer = sgd, momentum = 0.9, lr = 0.1, lr-schedule = cosine, weight-decay = 0.0001, "
    "global-batch = 256, epochs = 90, ema = 0";

}  // namespace

ModelEntry resnet18() {
  return {.name = "resnet18",
          .about = "torchvision's residual network for photos with 18 layers, 11.7 M parameters",
          .sample = {1, 224, 224, 3},
          .any_image = true,
          .build =
              [](Shape, int classes) {
                return build(classes, {2, 2, 2, 2}, 1);
              },
          .recipe = kRecipe};
}

ModelEntry resnet34() {
  return {.name = "resnet34",
          .about = "the same with 34 layers, 21.8 M parameters",
          .sample = {1, 224, 224, 3},
          .any_image = true,
          .build =
              [](Shape, int classes) {
                return build(classes, {3, 4, 6, 3}, 1);
              },
          .recipe = kRecipe};
}

ModelEntry resnet50() {
  return {.name = "resnet50",
          .about = "the same with 50 layers, 25.6 M parameters",
          .sample = {1, 224, 224, 3},
          .any_image = true,
          .build =
              [](Shape, int classes) {
                return build(classes, {3, 4, 6, 3}, 4);
              },
          .recipe = kRecipe};
}

}  // namespace lockstep
