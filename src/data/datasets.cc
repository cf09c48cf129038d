#include <array>

#include "src/data/cifar.h"
#include "src/data/dataset.h"
#include "src/data/synthetic.h"
#include "src/table.h"

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

std::vector<DatasetEntry> datasets() { return {kDatasets.begin(), kDatasets.end()}; }

DatasetPair open_dataset(std::string_view name, const std::filesystem::path& directory,
                         std::uint64_t seed) {
  return find(kDatasets, "data set", name).open(directory, seed);
}

}  // namespace lockstep
