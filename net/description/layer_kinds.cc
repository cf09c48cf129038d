// A function that reads several keys does so in statements of its own, and not in the arguments of
// a call. C++ does not define the order of arguments, and the order of the keys is that of the
// documentation.
#include "net/description/layer_kinds.h"

#include "net/layers.h"

namespace lockstep {
namespace {

const Bounds kFeatures = Bounds::at_least(1, kMostFeatures),
             kWindow = Bounds::at_least(1, kLongestKernel), kRate{0, 0.999},
             kScale = Bounds::at_least(0, 1000), kAny{-1e6, 1e6}, kSmall = Bounds::above_zero(1);

/// kWordNumbers of src/data/dataset.h: the words of the data sets, below which no embedding may
/// end.
constexpr std::int64_t kWords = 30982;

/// Initial values of a layer with weights, and their decay.
AffineInit affine(LayerRow& row, bool filters) {
  AffineInit init;
  const std::string begin =
      row.choice("init", {"glorot", "he", "he_outputs", "lecun", "normal", "uniform"});
  const float scale = row.number("scale", kScale, 0.0f);
  const bool scaled = begin == "normal" || begin == "uniform";
  if (scaled && scale == 0)
    row.fail_at("init", begin + " needs a scale. Pass scale = 0.05 or another number.");
  if (!scaled && scale > 0)
    row.fail_at("scale", "it belongs to init = \"normal\" or \"uniform\". Pass one, or remove it.");
  init.glorot = begin == "glorot";
  if (begin.starts_with("he")) init.he = begin == "he" ? He::inputs : He::outputs;
  init.lecun = begin == "lecun";
  if (begin == "normal") init.weight_deviation = scale;
  if (begin == "uniform") init.uniform = scale;
  if (filters) init.dirac = row.flag("dirac", false);
  init.biases = row.flag("biases", true);
  init.bias = row.number("bias", kAny, 0.0f);
  init.l2 = row.number("l2", kScale, 0.0f);
  init.frozen = row.flag("frozen", false);
  return init;
}

Padding padding(LayerRow& row) {
  const std::string name = row.choice("padding", {"same", "valid", "centred"});
  if (name == "same") return Padding::same;
  return name == "valid" ? Padding::valid : Padding::centred;
}

std::unique_ptr<Layer> make_convolution(LayerRow& row) {
  const std::int64_t filters = row.whole("filters", kFeatures),
                     kernel = row.whole("kernel", kWindow);
  ConvolutionOptions options;
  options.stride = row.whole("stride", kWindow, 1);
  options.dilation = row.whole("dilation", kWindow, 1);
  options.groups = row.whole("groups", kFeatures, 1);
  options.padding = padding(row);
  if (options.padding != Padding::valid && kernel % 2 == 0)
    row.fail_at("kernel", "it is even. Pass an odd one, or padding = \"valid\".");
  const bool relu = row.flag("relu", false);
  return convolution(filters, kernel, relu, affine(row, /*filters=*/true), options);
}

std::unique_ptr<Layer> make_dense(LayerRow& row) {
  const std::int64_t features = row.whole("features", kFeatures);
  const bool relu = row.flag("relu", false);
  return dense(features, relu, affine(row, /*filters=*/false));
}

std::unique_ptr<Layer> make_linear(LayerRow& row) {
  const std::int64_t features = row.whole("features", kFeatures);
  return linear(features, affine(row, /*filters=*/false));
}

/// The windows of a pool. A maximum notes the tap that won in a byte.
struct Pool {
  std::int64_t kernel, stride;
  Padding padding;
};
Pool pool(LayerRow& row, std::int64_t largest) {
  const std::int64_t kernel =
      row.whole("kernel", Bounds::at_least(1, static_cast<double>(largest)));
  const std::int64_t stride = row.whole("stride", Bounds::at_least(0, kLongestKernel), 0);
  return {kernel, stride > 0 ? stride : kernel, padding(row)};
}

std::unique_ptr<Layer> make_max_pool(LayerRow& row) {
  const Pool p = pool(row, 15);
  return max_pool(p.kernel, p.stride, row.flag("relu", false), p.padding);
}

std::unique_ptr<Layer> make_average_pool(LayerRow& row) {
  const Pool p = pool(row, kLongestKernel);
  return average_pool(p.kernel, p.stride, p.padding);
}

std::unique_ptr<Layer> make_response_norm(LayerRow& row) {
  const std::int64_t radius = row.whole("radius", kWindow, 4);
  const float bias = row.number("bias", Bounds::above_zero(1000), 1.0f),
              alpha = row.number("alpha", kScale, 0.001f), beta = row.number("beta", kScale, 0.75f);
  return response_norm(radius, bias, alpha, beta);
}

std::unique_ptr<Layer> make_rescale(LayerRow& row) {
  const float factor = row.number("factor", kAny), offset = row.number("offset", kAny, 0.0f);
  return rescale(factor, offset);
}

std::unique_ptr<Layer> make_subsample(LayerRow& row) {
  const std::int64_t stride = row.whole("stride", kWindow);
  return subsample(stride, row.whole("channels", kFeatures));
}

std::unique_ptr<Layer> make_embedding(LayerRow& row) {
  const std::int64_t features = row.whole("features", kFeatures);
  return embedding(row.whole("vocabulary", Bounds::at_least(kWords, 1 << 24), kWords), features);
}

std::unique_ptr<Layer> make_squeeze_excitation(LayerRow& row) {
  const std::int64_t channels = row.whole("channels", kFeatures);
  return squeeze_excitation(channels, row.whole("squeezed", kFeatures));
}

std::unique_ptr<Layer> make_batch_norm(LayerRow& row) {
  BatchNormOptions options;
  options.follow = row.number("follow", kSmall, options.follow);
  options.epsilon = row.number("epsilon", kSmall, options.epsilon);
  options.scale = row.flag("gamma", true);
  const std::string activation = row.choice("activation", {"none", "relu", "gelu", "hard_swish"});
  if (activation == "relu") options.activation = Activation::relu;
  if (activation == "gelu") options.activation = Activation::gelu;
  if (activation == "hard_swish") options.activation = Activation::hard_swish;
  return batch_norm(options);
}

std::unique_ptr<Layer> make_residual(LayerRow& row) {
  const std::string name = row.name("shortcut_name", "shortcut");
  NamedLayers shortcut = row.layers("shortcut", name, /*required=*/false),
              branch = row.layers("branch", "", /*required=*/true);
  const bool relu = row.flag("relu", false);
  return residual(std::move(branch), std::move(shortcut), relu, name);
}

constexpr LayerKind kKinds[] = {
    {"convolution", "filters over windows of an image or a sequence [, ReLU]", make_convolution},
    {"dense", "all features of a sample to `features` [, ReLU]; the head of most networks",
     make_dense},
    {"linear", "the same over the last extent of each element", make_linear},
    {"max_pool", "the maximum over windows [, ReLU]", make_max_pool},
    {"average_pool", "the mean over windows", make_average_pool},
    {"global_average_pool", "the mean of each channel",
     [](LayerRow&) { return global_average_pool(); }},
    {"global_max_pool", "the maximum of each channel", [](LayerRow&) { return global_max_pool(); }},
    {"batch_norm", "normalisation of each channel over the batch [, ReLU, GELU or hard swish]",
     make_batch_norm},
    {"layer_norm", "normalisation of the last extent",
     [](LayerRow& row) { return layer_norm(row.number("epsilon", kSmall, 1e-5f)); }},
    {"response_norm", "normalisation over neighbouring channels", make_response_norm},
    {"relu", "max(x, 0)", [](LayerRow&) { return relu(); }},
    {"gelu", "x times the normal distribution's share below x", [](LayerRow&) { return gelu(); }},
    {"silu", "x / (1 + e^-x)", [](LayerRow&) { return silu(); }},
    {"hard_sigmoid", "x / 6 + 1 / 2 within 0 and 1", [](LayerRow&) { return hard_sigmoid(); }},
    {"hard_swish", "x times hard_sigmoid of x", [](LayerRow&) { return hard_swish(); }},
    {"softmax", "probabilities along the last extent", [](LayerRow&) { return softmax(); }},
    {"rescale", "factor * x + offset", make_rescale},
    {"flatten", "all features of a sample in a row", [](LayerRow&) { return flatten(); }},
    {"subsample", "every stride-th pixel, with zeros up to `channels`", make_subsample},
    {"dropout", "random zeros in training",
     [](LayerRow& row) { return dropout(row.number("rate", kRate)); }},
    {"stochastic_depth", "random samples of zeros in training, at the end of a branch",
     [](LayerRow& row) { return stochastic_depth(row.number("rate", kRate)); }},
    {"squeeze_excitation", "a factor for each channel, computed from the channels' means",
     make_squeeze_excitation},
    {"layer_scale", "a trained factor for each channel",
     [](LayerRow& row) { return layer_scale(row.number("begin", kAny, 1e-6f)); }},
    {"embedding", "words to vectors; the first layer for texts", make_embedding},
    {"attention", "queries, keys and values to their weighted means",
     [](LayerRow& row) {
       return attention(static_cast<int>(row.whole("heads", Bounds::at_least(1, kLongestKernel))));
     }},
    {"class_token", "a trained element in front of a sequence or of an image's pixels",
     [](LayerRow&) { return class_token(); }},
    {"position_embedding", "a trained value added to each place of a sequence",
     [](LayerRow& row) { return position_embedding(row.number("deviation", kScale, 0.02f)); }},
    {"first_token", "the first element of a sequence", [](LayerRow&) { return first_token(); }},
    {"chain", "the layers of a list in a row",
     [](LayerRow& row) { return chain(row.layers("layers", "", /*required=*/true)); }},
    {"residual", "the sum of a branch and its input or a shortcut [, ReLU]", make_residual}};

}  // namespace

std::span<const LayerKind> layer_kinds() { return kKinds; }

}  // namespace lockstep
