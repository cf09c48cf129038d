// Networks that torchvision has use its names for their layers, so that only the last part of a
// parameter's name differs. timm's names follow from torchvision's by a table of pieces for each
// network.
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
  return {.marker = "cls_token",
          .pieces = {{"class_token", "cls_token"},
                     {"encoder.pos_embedding", "pos_embed"},
                     {"conv_proj.", "patch_embed.proj."},
                     {"encoder.ln.", "norm."},
                     {"heads.head.", "head."},
                     {"encoder.layers.encoder_layer_", "blocks."},
                     {".ln_1.", ".norm1."},
                     {".self_attention.in_proj_", ".attn.qkv."},
                     {".self_attention.out_proj.", ".attn.proj."},
                     {".ln_2.", ".norm2."},
                     {".mlp.0.", ".mlp.fc1."},
                     {".mlp.3.", ".mlp.fc2."}}};
}

TimmNetwork convnext_tiny() {
  return {.marker = "stem.0.weight",
          .pieces = {{"features.0.", "stem."},
                     {"features.1.", "stages.0.blocks."},
                     {"features.2.", "stages.1.downsample."},
                     {"features.3.", "stages.1.blocks."},
                     {"features.4.", "stages.2.downsample."},
                     {"features.5.", "stages.2.blocks."},
                     {"features.6.", "stages.3.downsample."},
                     {"features.7.", "stages.3.blocks."},
                     {".block.0.", ".conv_dw."},
                     {".block.2.", ".norm."},
                     {".block.3.", ".mlp.fc1."},
                     {".block.5.", ".mlp.fc2."},
                     {".layer_scale", ".gamma"},
                     {"classifier.0.", "head.norm."},
                     {"classifier.2.", "head.fc."}}};
}

TimmNetwork mobilenet_v3_large() {
  // Block 2 is the squeeze and excitation, or else the last convolution.
  TimmNetwork network{.marker = "conv_stem.weight",
                      .pieces = {{"features.0.0.", "conv_stem."},
                                 {"features.0.1.", "bn1."},
                                 {"features.1.block.0.0.", "blocks.0.0.conv_dw."},
                                 {"features.1.block.0.1.", "blocks.0.0.bn1."},
                                 {"features.1.block.1.0.", "blocks.0.0.conv_pw."},
                                 {"features.1.block.1.1.", "blocks.0.0.bn2."},
                                 {"features.16.0.", "blocks.6.0.conv."},
                                 {"features.16.1.", "blocks.6.0.bn1."},
                                 {"classifier.0.", "conv_head."},
                                 {"classifier.3.", "classifier."},
                                 {".block.0.0.", ".conv_pw."},
                                 {".block.0.1.", ".bn1."},
                                 {".block.1.0.", ".conv_dw."},
                                 {".block.1.1.", ".bn2."},
                                 {".block.2.fc1.", ".se.conv_reduce."},
                                 {".block.2.fc2.", ".se.conv_expand."},
                                 {".block.2.0.", ".conv_pwl."},
                                 {".block.2.1.", ".bn3."},
                                 {".block.3.0.", ".conv_pwl."},
                                 {".block.3.1.", ".bn3."}},
                      .epsilon = 1e-5f,
                      .other_epsilon = 1e-3f};
  constexpr int kBlocks[] = {2, 3, 4, 2, 3};  // of the stages from 1 on
  int number = 2;
  for (int stage = 0; stage < 5; ++stage) {
    for (int block = 0; block < kBlocks[stage]; ++block)
      network.pieces.emplace_back(fmt::format("features.{}.", number++),
                                  fmt::format("blocks.{}.{}.", stage + 1, block));
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
  std::ranges::replace(name, '/', '.');
  // nn.MultiheadAttention has no layer for its inputs either.
  if (const std::size_t at = name.rfind(".in_proj."); at != name.npos) name[at + 8] = '_';
  return name;
}

void require_own_names(const std::vector<Parameter>& parameters) {
  // Each name ends with the sign that follows in a longer one, so that conv1 is not the beginning
  // of conv10. After the sort a folder stands directly before a name within it.
  std::vector<std::pair<std::string, std::string>> names;  // in files, and here
  for (const Parameter& one : parameters) {
    names.emplace_back(one.name + "/", one.name);
    names.emplace_back(pytorch_name(one.name) + ".", one.name);
  }
  std::ranges::sort(names);
  const auto same = std::ranges::adjacent_find(
      names, [](const auto& a, const auto& b) { return b.first.starts_with(a.first); });
  if (same == names.end()) return;
  fail("the parameters {} and {} are both {} in a file. Rename one of their layers.", same->second,
       (same + 1)->second, same->first);
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

std::vector<float> to_pytorch(const Parameter& parameter, std::span<const float> from) {
  std::vector<float> to(parameter.shape.count());
  for_places(parameter, [&](std::int64_t arena, std::int64_t place) { to[place] = from[arena]; });
  return to;
}

/// The order counts: long pieces come before shorter ones that they contain.
std::string TimmNetwork::name_of(std::string name) const {
  for (const auto& [from, to] : pieces) {
    if (const std::size_t at = name.find(from); at != name.npos) name.replace(at, from.size(), to);
  }
  return name;
}

std::span<const TimmNetwork> timm_networks() {
  static const TimmNetwork kNetworks[] = {vit_b_16(), convnext_tiny(), mobilenet_v3_large()};
  return kNetworks;
}

}  // namespace lockstep
