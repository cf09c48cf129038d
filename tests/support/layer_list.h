// Networks of a few layers, for tests that need a model of their own.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "net/layers.h"

namespace lockstep {

inline void append_layers(NamedLayers&) {}
template <class... Rest>
void append_layers(NamedLayers& layers, std::string name, std::unique_ptr<Layer> layer,
                   Rest... rest) {
  layers.emplace_back(std::move(name), std::move(layer));
  append_layers(layers, std::move(rest)...);
}

/// layers_of("conv", convolution(...), "pool", max_pool(...)): names and layers in turn.
template <class... Rest>
NamedLayers layers_of(Rest... rest) {
  NamedLayers layers;
  append_layers(layers, std::move(rest)...);
  return layers;
}

}  // namespace lockstep
