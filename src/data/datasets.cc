#include <array>

#include "src/data/cifar.h"
#include "src/data/dataset.h"
#include "src/data/synthetic.h"

namespace lockstep {
namespace {

constexpr std::array kDatasets{
    DatasetEntry{"cifar10",
                 "CIFAR-10 photographs, 32x32x3, 10 classes, from its official binary files",
                 open_cifar10},
    DatasetEntry{"synthetic", "generated shapes and textures of CIFAR-10's shape; needs no files",
                 open_synthetic},
};

}  // namespace

std::span<const DatasetEntry> datasets() { return kDatasets; }

}  // namespace lockstep
