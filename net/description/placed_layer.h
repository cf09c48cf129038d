// A layer that knows the line of the file that describes it.
#pragma once

#include <memory>
#include <string>

#include "net/layer.h"

namespace lockstep {

/// `layer`, whose errors in setup() begin with `place` ("net.toml:7"). It also refuses shapes that
/// are too large to count their bytes and, if `classes` is above 0, a result that is not one logit
/// for each class.
std::unique_ptr<Layer> placed(std::unique_ptr<Layer> layer, std::string place, int classes = 0);

}  // namespace lockstep
