// Names, shapes and orders of parameters in the modules of PyTorch: those of torchvision's
// networks, and those that timm gives the same networks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "net/parameters.h"

namespace lockstep {

/// The name of a parameter in a PyTorch module: "layer1.0/conv1/weights" is layer1.0.conv1.weight.
std::string pytorch_name(const std::string& parameter);

/// Throws Error if two parameters share a name in a checkpoint or in a PyTorch module, or if the
/// name of one is that of a folder with another: "a/weights" and "a/weights/weights".
void require_own_names(const std::vector<Parameter>& parameters);

/// The extents of a parameter in a PyTorch module: filters are filters, channels, height, width.
std::vector<std::int64_t> pytorch_shape(const Parameter& parameter);

/// Copies the numbers of a parameter, parameter.shape.count() of them, from the order of a PyTorch
/// module to that of the arena.
void from_pytorch(const Parameter& parameter, std::span<const float> from, float* to);
/// The numbers in the order of a PyTorch module.
std::vector<float> to_pytorch(const Parameter& parameter, std::span<const float> from);

/// A network that timm gives other names than torchvision: mobilenetv3_large_100, convnext_tiny or
/// vit_base_patch16_224.
struct TimmNetwork {
  /// A parameter that no other network of the table has.
  std::string marker;
  /// Pieces of torchvision's names, and their names in timm. They are replaced one after the other.
  std::vector<std::pair<std::string, std::string>> pieces;
  /// Summand of the variances of a batch norm in timm, and in torchvision and Lockstep. The factor
  /// gamma makes up for the difference. 0: the same.
  float epsilon = 0, other_epsilon = 0;

  /// timm's name of the parameter that torchvision calls `name`.
  std::string name_of(std::string name) const;
};
std::span<const TimmNetwork> timm_networks();

}  // namespace lockstep
