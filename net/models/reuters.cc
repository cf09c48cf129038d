// The network of a published Keras example on Reuters' newswires with several virtual devices
// (lyhue1991, "eat_tensorflow2_in_30_days"). Its last layer is a softmax, and its loss takes
// logits: the softmax is applied twice, which holds the logits between 0 and 1.
// `reuters_as_published` is that. Published after 10 epochs: top-1 0.61, top-5 0.81.

#include "net/layers.h"
#include "net/model.h"

namespace lockstep {
namespace {

constexpr std::int64_t kVocabulary = 30982;

NamedLayers build(Shape /*sample*/, int classes) {
  const bool relu = true, linear = false;
  const AffineInit init{.glorot = true};
  const ConvolutionOptions valid{.padding = Padding::valid};
  NamedLayers layers;
  layers.emplace_back("embedding", embedding(kVocabulary, 7));
  layers.emplace_back("conv1d", convolution(64, 5, relu, init, valid));
  layers.emplace_back("max_pooling1d", max_pool(2, 2, linear, Padding::valid));
  layers.emplace_back("conv1d_1", convolution(32, 3, relu, init, valid));
  layers.emplace_back("max_pooling1d_1", max_pool(2, 2, linear, Padding::valid));
  layers.emplace_back("flatten", flatten());
  layers.emplace_back("dense", dense(classes, linear, init));
  return layers;
}

NamedLayers build_as_published(Shape sample, int classes) {
  NamedLayers layers = build(sample, classes);
  layers.emplace_back("softmax", softmax());
  return layers;
}

constexpr std::string_view kRecipe =
    "optimizer = nadam, global-batch = 32, epochs = 10, ema = 0, epoch-lines = true";

}  // namespace

ModelEntry reuters_model() {
  return {.name = "reuters",
          .about =
              "a Keras example for newswires: embedding, 2 convolutions along the text, 1 "
              "dense layer, 0.33 M parameters; Nadam, 32 on all ranks together, 10 epochs",
          .sample = {1, 300},
          .any_image = false,
          .build = build,
          .recipe = kRecipe,
          .words = true};
}

ModelEntry reuters_as_published() {
  return {.name = "reuters_as_published",
          .about = "the same with the softmax applied twice, as in the example",
          .sample = {1, 300},
          .any_image = false,
          .build = build_as_published,
          .recipe = kRecipe,
          .words = true};
}

}  // namespace lockstep
