// MobileNetV3, large: Howard et al., "Searching for MobileNetV3", ICCV 2019, table 1. Names, shapes
// and padding are torchvision's, so that its weights fit (--init). Its recipe has RMSprop with
// momentum; SGD with momentum is in its place here.

#include <algorithm>
#include <cmath>

#include "net/layers.h"
#include "net/model.h"

namespace lockstep {
namespace {

enum class Unit { none, relu, hard_swish };

/// One row of the paper's table.
struct Block {
  std::int64_t kernel, expanded, filters;
  bool squeeze;
  Unit unit;
  std::int64_t stride;
};

constexpr Block kBlocks[] = {
    {3, 16, 16, false, Unit::relu, 1},        {3, 64, 24, false, Unit::relu, 2},
    {3, 72, 24, false, Unit::relu, 1},        {5, 72, 40, true, Unit::relu, 2},
    {5, 120, 40, true, Unit::relu, 1},        {5, 120, 40, true, Unit::relu, 1},
    {3, 240, 80, false, Unit::hard_swish, 2}, {3, 200, 80, false, Unit::hard_swish, 1},
    {3, 184, 80, false, Unit::hard_swish, 1}, {3, 184, 80, false, Unit::hard_swish, 1},
    {3, 480, 112, true, Unit::hard_swish, 1}, {3, 672, 112, true, Unit::hard_swish, 1},
    {5, 672, 160, true, Unit::hard_swish, 2}, {5, 960, 160, true, Unit::hard_swish, 1},
    {5, 960, 160, true, Unit::hard_swish, 1}};

/// The multiple of 8 next to `channels`, at least nine tenths of it.
std::int64_t multiple_of_8(std::int64_t channels) {
  const std::int64_t nearest = std::max<std::int64_t>(8, (channels + 4) / 8 * 8);
  return 10 * nearest < 9 * channels ? nearest + 8 : nearest;
}

/// A convolution without biases, normalised [, and a unit]: NAME.0, NAME.1, NAME.2.
void add_convolution(NamedLayers& layers, const std::string& name, std::int64_t filters,
                     std::int64_t kernel, Unit unit, ConvolutionOptions options = {}) {
  const auto outputs = static_cast<float>(kernel * kernel * filters);
  layers.emplace_back(
      name + ".0",
      convolution(filters, kernel, /*relu=*/false,
                  {.weight_deviation = std::sqrt(2 / outputs), .biases = false}, options));
  layers.emplace_back(
      name + ".1",
      batch_norm({.follow = 0.01f,
                  .epsilon = 1e-3f,
                  .activation = unit == Unit::relu ? Activation::relu : Activation::none}));
  if (unit == Unit::hard_swish) layers.emplace_back(name + ".2", hard_swish());
}

/// Expanded by 1x1, filtered by channel, and projected to `filters` of 1x1.
NamedLayers block_of(const Block& b, std::int64_t channels) {
  NamedLayers layers;
  int number = 0;
  const auto next = [&] { return "block." + std::to_string(number++); };
  if (b.expanded != channels) add_convolution(layers, next(), b.expanded, 1, b.unit);
  add_convolution(layers, next(), b.expanded, b.kernel, b.unit,
                  {.stride = b.stride, .groups = b.expanded});
  if (b.squeeze)
    layers.emplace_back(next(), squeeze_excitation(b.expanded, multiple_of_8(b.expanded / 4)));
  add_convolution(layers, next(), b.filters, 1, Unit::none);
  return layers;
}

NamedLayers build(Shape, int classes) {
  NamedLayers layers;
  std::int64_t channels = 16;
  add_convolution(layers, "features.0", channels, 3, Unit::hard_swish, {.stride = 2});
  int number = 1;
  for (const Block& b : kBlocks) {
    NamedLayers branch = block_of(b, channels);
    const bool sums = b.stride == 1 && b.filters == channels;
    layers.emplace_back("features." + std::to_string(number++),
                        sums ? residual(std::move(branch)) : chain(std::move(branch)));
    channels = b.filters;
  }
  add_convolution(layers, "features." + std::to_string(number), 6 * channels, 1, Unit::hard_swish);
  layers.emplace_back("avgpool", global_average_pool());
  layers.emplace_back("classifier.0", linear(1280, {.weight_deviation = 0.01f, .bias = 0}));
  layers.emplace_back("classifier.1", hard_swish());
  layers.emplace_back("classifier.2", dropout(0.2f));
  layers.emplace_back("classifier.3", linear(classes, {.weight_deviation = 0.01f, .bias = 0}));
  return layers;
}

}  // namespace

ModelEntry mobilenet_v3_large() {
  return {.name = "mobilenet_v3_large",
          .about =
              "torchvision's small network for photos, with depthwise convolutions, 5.5 M "
              "parameters",
          .sample = {1, 224, 224, 3},
          .any_image = true,
          .build = build,
          .recipe =
              "optimizer = sgd, momentum = 0.9, lr = 0.1, lr-schedule = cosine, "
              "weight-decay = 0.00001, global-batch = 256, epochs = 300"};
}

}  // namespace lockstep
