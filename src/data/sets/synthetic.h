// A generated data set of CIFAR-10's shape, for runs without data: 50000 training and 10000 test
// images, 32x32x3, 10 classes. A class is one of five shapes in one of two textures; place, size,
// angle, colours, background and noise are random.
#pragma once

#include <cstdint>
#include <filesystem>

#include "src/data/dataset.h"

namespace lockstep {

/// Nothing is stored: an image is painted whenever it is read, with numbers keyed by (seed, part,
/// index). `directory` is not used. The images pass through the same augmentation as CIFAR-10's.
DatasetPair open_synthetic(const std::filesystem::path& directory, std::uint64_t seed);

}  // namespace lockstep
