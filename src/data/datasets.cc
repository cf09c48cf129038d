// The menu of data sets. A data set is one file in src/data, with its header, and an entry here.

#include <array>

#include "src/data/cifar.h"
#include "src/data/dataset.h"
#include "src/data/digits.h"
#include "src/data/mnist.h"
#include "src/data/synthetic.h"

namespace lockstep {
namespace {

constexpr std::array kDatasets{
    DatasetEntry{
        .name = "cifar10",
        .about = "CIFAR-10 photographs, 32x32x3, 10 classes, from its official binary files",
        .files = "CIFAR-10's official files",
        .stands_for = "",
        .model = "tutorial",
        .steps = 10000,
        .open = open_cifar10},
    DatasetEntry{.name = "synthetic",
                 .about = "generated shapes and textures of CIFAR-10's shape; needs no files",
                 .files = "",
                 .stands_for = "cifar10",
                 .model = "tutorial",
                 .steps = 1000,
                 .open = open_synthetic},
    DatasetEntry{.name = "mnist",
                 .about = "MNIST handwritten digits, 28x28x1, 10 classes, from its IDX files",
                 .files = "MNIST's four files, as they are or compressed",
                 .stands_for = "",
                 .model = "deep_mnist",
                 .steps = 5000,
                 .open = open_mnist},
    DatasetEntry{.name = "digits",
                 .about = "generated digits of MNIST's shape; needs no files",
                 .files = "",
                 .stands_for = "mnist",
                 .model = "deep_mnist",
                 .steps = 500,
                 .open = open_digits},
};

}  // namespace

std::span<const DatasetEntry> datasets() { return kDatasets; }

const DatasetEntry* stand_in(std::string_view name) {
  for (const DatasetEntry& entry : kDatasets) {
    if (entry.stands_for == name) return &entry;
  }
  return nullptr;
}

}  // namespace lockstep
