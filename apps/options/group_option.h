// --group as a text: "PATTERN:lr=0.1,weight-decay=0".
#pragma once

#include <string>

#include "net/parameter_groups.h"

namespace lockstep {

/// Throws the usage Error with what is wrong in `text`.
ParameterGroup parse_group(const std::string& text);

}  // namespace lockstep
