// The vision transformer, base, with patches of 16 x 16: Dosovitskiy et al., "An image is worth
// 16x16 words: transformers for image recognition at scale", ICLR 2021. Names and shapes are
// torchvision's, so that its weights fit (--init) images of their size, and so is the recipe,
// except augmentation. The last layer begins with small weights, not with zeros.

#include <cmath>

#include <fmt/format.h>

#include "net/layers.h"
#include "net/model.h"

namespace lockstep {
namespace {

constexpr std::int64_t kPatch = 16, kWidth = 768;
constexpr int kHeads = 12, kBlocks = 12;
constexpr float kEpsilon = 1e-6f;
constexpr AffineInit kGlorot{.glorot = true};

void add_block(NamedLayers& layers, const std::string& name) {
  NamedLayers self_attention, attended, perceptron;
  self_attention.emplace_back("in_proj", linear(3 * kWidth, kGlorot));
  self_attention.emplace_back("", attention(kHeads));
  self_attention.emplace_back("out_proj", linear(kWidth, kGlorot));
  attended.emplace_back("ln_1", layer_norm(kEpsilon));
  attended.emplace_back("self_attention", chain(std::move(self_attention)));
  perceptron.emplace_back("ln_2", layer_norm(kEpsilon));
  perceptron.emplace_back("mlp.0", linear(4 * kWidth, kGlorot));
  perceptron.emplace_back("mlp.1", gelu());
  perceptron.emplace_back("mlp.3", linear(kWidth, kGlorot));
  layers.emplace_back(name, residual(std::move(attended)));
  layers.emplace_back(name, residual(std::move(perceptron)));
}

NamedLayers build(Shape sample, int classes) {
  const auto inputs = static_cast<float>(kPatch * kPatch * sample[3]);
  NamedLayers layers;
  layers.emplace_back("conv_proj", convolution(kWidth, kPatch, /*relu=*/false,
                                               {.weight_deviation = std::sqrt(1 / inputs)},
                                               {.stride = kPatch, .padding = Padding::valid}));
  layers.emplace_back("class_token", class_token());
  layers.emplace_back("encoder.pos_embedding", position_embedding(0.02f));
  for (int number = 0; number < kBlocks; ++number)
    add_block(layers, fmt::format("encoder.layers.encoder_layer_{}", number));
  layers.emplace_back("first", first_token());
  layers.emplace_back("encoder.ln", layer_norm(kEpsilon));
  layers.emplace_back("heads.head", linear(classes, {.weight_deviation = 0.02f, .bias = 0}));
  return layers;
}

}  // namespace

ModelEntry vit_b_16() {
  return {.name = "vit_b_16",
          .about = "torchvision's transformer for photos of one size, 86.6 M parameters",
          .sample = {1, 224, 224, 3},
          .any_image = true,
          .build = build,
          .recipe =
              "optimizer = adamw, lr = 0.003, lr-schedule = cosine, warmup-epochs = 30, "
              "weight-decay = 0.3, label-smoothing = 0.11, clip-norm = 1, "
              "global-batch = 4096, epochs = 300",
          .smallest = 16};
}

}  // namespace lockstep
