// Layouts of parameters without a model, for tests of optimizers.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "net/parameters.h"

namespace lockstep {

/// The members of a Parameter that these tests set.
struct ParameterSpec {
  std::string name;
  Shape shape = {};
  float l2 = 0, follow = 0;
};

/// These parameters one after the other, aligned as Model aligns them. Each is a layer.
inline Layout lay_out(const std::vector<ParameterSpec>& parameters) {
  Layout layout;
  for (const auto& [name, shape, l2, follow] : parameters) {
    const Range range{layout.count, shape.count()};
    layout.parameters.push_back({name, shape, {}, l2, range, 0, follow});
    layout.count += Layout::aligned(range.count);
    layout.layers.push_back({range.begin, layout.count - range.begin});
  }
  return layout;
}

inline const Parameter& parameter_named(const Layout& layout, std::string_view name) {
  for (const Parameter& parameter : layout.parameters)
    if (parameter.name == name) return parameter;
  throw std::logic_error(std::string(name));
}

}  // namespace lockstep
