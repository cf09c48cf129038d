// The menu of models. A model is one file in net/models and two lines here.

#include <array>

#include "net/model.h"

namespace lockstep {

NamedLayers tutorial(int classes);

namespace {
const std::array kModels{
    ModelEntry{"tutorial",
               "the TensorFlow CIFAR-10 tutorial network: 2 convolutions, 3 dense layers, 1.07 M "
               "parameters",
               {1, 24, 24, 3},
               tutorial},
};
}  // namespace

std::span<const ModelEntry> models() { return kModels; }

}  // namespace lockstep
