#include "net/pytorch_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "src/base/check.h"

namespace lockstep {
namespace {

/// Whether a parameter is the filters of a convolution.
bool is_filters(const Parameter& parameter) {
  return parameter.shape.rank() > 2 && parameter.name.ends_with("/weights");
}

/// Calls f(place in the arena's order, place in PyTorch's) for each number of a parameter. Filters
/// are filters, taps, channels in the arena, and filters, channels, taps in PyTorch.
template <class F>
void for_places(const Parameter& parameter, F f) {
  const std::int64_t filters = parameter.shape[0],
                     channels = is_filters(parameter) ? parameter.shape.back() : 1,
                     taps = parameter.shape.row() / channels;
  std::int64_t place = 0;
  for (std::int64_t filter = 0; filter < filters; ++filter) {
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      for (std::int64_t c = 0; c < channels; ++c) f(place++, (filter * channels + c) * taps + tap);
    }
  }
}

TimmNetwork vit_b_16() {
  TimmNetwork network{.marker = "cls_token",
                      .beginnings = {{"class_token", "cls_token"},
                                     {"encoder.pos_embedding", "pos_embed"},
                                     {"conv_proj.", "patch_embed.proj."},
                                     {"encoder.ln.", "norm."},
                                     {"heads.head.", "head."}}};
  for (int block = 0; block < 12; ++block) {
    const std::string from = fmt::format("encoder.layers.encoder_layer_{}.", block),
                      to = fmt::format("blocks.{}.", block);
    for (const auto& [name, other] : {std::pair("ln_1.", "norm1."),
                                      {"self_attention.in_proj_", "attn.qkv."},
                                      {"self_attention.out_proj.", "attn.proj."},
                                      {"ln_2.", "norm2."},
                                      {"mlp.0.", "mlp.fc1."},
                                      {"mlp.3.", "mlp.fc2."}})
      network.beginnings.emplace_back(from + name, to + other);
  }
  return network;
}

TimmNetwork convnext_tiny() {
  constexpr int kBlocks[] = {3, 3, 9, 3};
  TimmNetwork network{.marker = "stem.0.weight",
                      .beginnings = {{"features.0.", "stem."},
                                     {"classifier.0.", "head.norm."},
                                     {"classifier.2.", "head.fc."}}};
  for (int stage = 0; stage < 4; ++stage) {
    const std::string stages = fmt::format("stages.{}.", stage);
    if (stage > 0)
      network.beginnings.emplace_back(fmt::format("features.{}.", 2 * stage),
                                      stages + "downsample.");
    for (int block = 0; block < kBlocks[stage]; ++block) {
      const std::string from = fmt::format("features.{}.{}.", 2 * stage + 1, block),
                        to = stages + fmt::format("blocks.{}.", block);
      for (const auto& [name, other] : {std::pair("block.0.", "conv_dw."),
                                        {"block.2.", "norm."},
                                        {"block.3.", "mlp.fc1."},
                                        {"block.5.", "mlp.fc2."},
                                        {"layer_scale", "gamma"}})
        network.beginnings.emplace_back(from + name, to + other);
    }
  }
  return network;
}

TimmNetwork mobilenet_v3_large() {
  constexpr int kBlocks[] = {2, 3, 4, 2, 3};  // of the stages from 1 on
  TimmNetwork network{.marker = "conv_stem.weight",
                      .beginnings = {{"features.0.0.", "conv_stem."},
                                     {"features.0.1.", "bn1."},
                                     {"features.1.block.0.0.", "blocks.0.0.conv_dw."},
                                     {"features.1.block.0.1.", "blocks.0.0.bn1."},
                                     {"features.1.block.1.0.", "blocks.0.0.conv_pw."},
                                     {"features.1.block.1.1.", "blocks.0.0.bn2."},
                                     {"features.16.0.", "blocks.6.0.conv."},
                                     {"features.16.1.", "blocks.6.0.bn1."},
                                     {"classifier.0.", "conv_head."},
                                     {"classifier.3.", "classifier."}},
                      .epsilon = 1e-5f,
                      .other_epsilon = 1e-3f};
  int number = 2;
  for (int stage = 0; stage < 5; ++stage) {
    for (int block = 0; block < kBlocks[stage]; ++block) {
      const std::string from = fmt::format("features.{}.block.", number++),
                        to = fmt::format("blocks.{}.{}.", stage + 1, block);
      // Block 2 is the squeeze and excitation, or else the last convolution.
      for (const auto& [name, other] : {std::pair("0.0.", "conv_pw."),
                                        {"0.1.", "bn1."},
                                        {"1.0.", "conv_dw."},
                                        {"1.1.", "bn2."},
                                        {"2.fc1.", "se.conv_reduce."},
                                        {"2.fc2.", "se.conv_expand."},
                                        {"2.0.", "conv_pwl."},
                                        {"2.1.", "bn3."},
                                        {"3.0.", "conv_pwl."},
                                        {"3.1.", "bn3."}})
        network.beginnings.emplace_back(from + name, to + other);
    }
  }
  return network;
}

}  // namespace

std::string pytorch_name(const std::string& parameter) {
  static const std::map<std::string, std::string> kParts{
      {"weights", "weight"},    {"biases", "bias"},          {"gamma", "weight"},  {"beta", "bias"},
      {"mean", "running_mean"}, {"variance", "running_var"}, {"vectors", "weight"}};
  // Values have no layer of their own in PyTorch.
  if (parameter.ends_with("/values"))
    return pytorch_name(parameter.substr(0, parameter.rfind('/')));
  const std::size_t end = parameter.rfind('/');
  const auto part = kParts.find(parameter.substr(end + 1));
  std::string name = parameter.substr(0, end + 1) +
                     (part == kParts.end() ? parameter.substr(end + 1) : part->second);
  std::replace(name.begin(), name.end(), '/', '.');
  // nn.MultiheadAttention has no layer for its inputs either.
  if (const std::size_t at = name.rfind(".in_proj."); at != name.npos) name[at + 8] = '_';
  return name;
}

void require_own_names(const std::vector<Parameter>& parameters) {
  for (const char sign : {'/', '.'}) {
    std::map<std::string, std::string> names;
    const auto refuse = [&](const std::string& name, const std::string& a, const std::string& b) {
      fail("the parameters {} and {} are both {} in a file. Rename one of their layers.", a, b,
           name);
    };
    for (const Parameter& one : parameters) {
      const auto [other, is_new] =
          names.emplace(sign == '/' ? one.name : pytorch_name(one.name), one.name);
      if (!is_new) refuse(other->first, other->second, one.name);
    }
    for (const auto& [name, parameter] : names) {
      const auto inside = names.lower_bound(name + sign);
      if (inside != names.end() && inside->first.starts_with(name + sign))
        refuse(name, parameter, inside->second);
    }
  }
}

std::vector<std::int64_t> pytorch_shape(const Parameter& parameter) {
  std::vector<std::int64_t> shape;
  for (int i = 0; i < parameter.shape.rank(); ++i) shape.push_back(parameter.shape[i]);
  if (is_filters(parameter)) std::rotate(shape.begin() + 1, shape.end() - 1, shape.end());
  return shape;
}

void from_pytorch(const Parameter& parameter, std::span<const float> from, float* to) {
  for_places(parameter, [&](std::int64_t arena, std::int64_t place) { to[arena] = from[place]; });
}

void to_pytorch(const Parameter& parameter, std::span<const float> from, float* to) {
  for_places(parameter, [&](std::int64_t arena, std::int64_t place) { to[place] = from[arena]; });
}

std::string TimmNetwork::name_of(const std::string& name) const {
  const auto found = std::find_if(beginnings.begin(), beginnings.end(),
                                  [&](const auto& pair) { return name.starts_with(pair.first); });
  if (found == beginnings.end()) return name;
  return found->second + name.substr(found->first.size());
}

std::span<const TimmNetwork> timm_networks() {
  static const TimmNetwork kNetworks[] = {vit_b_16(), convnext_tiny(), mobilenet_v3_large()};
  return kNetworks;
}

}  // namespace lockstep
