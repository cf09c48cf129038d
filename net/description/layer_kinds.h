// The registry of layers by name, for networks that are data. A layer of net/layers.h is one row in
// layer_kinds.cc.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "net/description/layer_row.h"

namespace lockstep {

/// One entry of the registry.
struct LayerKind {
  static constexpr std::string_view kind = "layer";
  std::string_view name;  ///< that of its function in net/layers.h
  std::string_view about;
  /// Reads the keys of a row and makes the layer.
  std::unique_ptr<Layer> (*make)(LayerRow& row);
};

std::span<const LayerKind> layer_kinds();

/// The limits of a file's numbers. With them no product of extents overflows.
inline constexpr std::int64_t kMostFeatures = 1 << 20, kLongestKernel = 1 << 10;

}  // namespace lockstep
