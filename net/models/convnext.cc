// ConvNeXt, tiny: Liu et al., "A ConvNet for the 2020s", CVPR 2022. Names, shapes and padding are
// torchvision's, so that its weights fit (--init), and so is the recipe, except augmentation and
// 600 epochs.

#include <fmt/format.h>

#include "net/layers.h"
#include "net/model.h"

namespace lockstep {
namespace {

constexpr AffineInit kInit{.weight_deviation = 0.02f, .bias = 0};
constexpr float kEpsilon = 1e-6f, kLastDropRate = 0.1f;
constexpr int kBlocks[] = {3, 3, 9, 3}, kAllBlocks = 18;

std::unique_ptr<Layer> block(std::int64_t channels, int number) {
  NamedLayers branch;
  branch.emplace_back("block.0",
                      convolution(channels, 7, /*relu=*/false, kInit, {.groups = channels}));
  branch.emplace_back("block.2", layer_norm(kEpsilon));
  branch.emplace_back("block.3", linear(4 * channels, kInit));
  branch.emplace_back("block.4", gelu());
  branch.emplace_back("block.5", linear(channels, kInit));
  branch.emplace_back("layer_scale", layer_scale(1e-6f));
  if (number > 0) {
    const float depth = static_cast<float>(number) / (kAllBlocks - 1);
    branch.emplace_back("stochastic_depth", stochastic_depth(kLastDropRate * depth));
  }
  return residual(std::move(branch));
}

/// A convolution of windows side by side.
std::unique_ptr<Layer> patches(std::int64_t filters, std::int64_t kernel) {
  return convolution(filters, kernel, /*relu=*/false, kInit,
                     {.stride = kernel, .padding = Padding::valid});
}

NamedLayers build(Shape, int classes) {
  NamedLayers layers;
  layers.emplace_back("features.0.0", patches(96, 4));
  layers.emplace_back("features.0.1", layer_norm(kEpsilon));
  int all = 0;
  for (int stage = 0; stage < 4; ++stage) {
    const std::int64_t channels = 96 << stage;
    if (stage > 0) {
      layers.emplace_back(fmt::format("features.{}.0", 2 * stage), layer_norm(kEpsilon));
      layers.emplace_back(fmt::format("features.{}.1", 2 * stage), patches(channels, 2));
    }
    for (int number = 0; number < kBlocks[stage]; ++number)
      layers.emplace_back(fmt::format("features.{}.{}", 2 * stage + 1, number),
                          block(channels, all++));
  }
  layers.emplace_back("avgpool", global_average_pool());
  layers.emplace_back("classifier.0", layer_norm(kEpsilon));
  layers.emplace_back("classifier.2", linear(classes, kInit));
  return layers;
}

}  // namespace

ModelEntry convnext_tiny() {
  return {.name = "convnext_tiny",
          .about =
              "torchvision's convolutional network for photos, built like a transformer, 28.6 M "
              "parameters",
          .sample = {1, 224, 224, 3},
          .any_image = true,
          .build = build,
          .recipe =
              "optimizer = adamw, lr = 0.001, lr-schedule = cosine, warmup-epochs = 5, "
              "weight-decay = 0.05, label-smoothing = 0.1, global-batch = 1024, epochs = 300",
          .smallest = 32};
}

}  // namespace lockstep
