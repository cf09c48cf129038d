// A generated data set of MNIST's shape, for runs without data: 60000 training and 10000 test
// images, 28x28x1, of the digits 0 to 9. A digit is drawn in one stroke or two, whose corners,
// size, angle, slant, place, width and ink are random, on paper with noise.
#pragma once

#include <cstdint>
#include <filesystem>

#include "src/data/dataset.h"

namespace lockstep {

/// Nothing is stored: an image is drawn whenever it is read, with numbers keyed by (seed, part,
/// index). `directory` is not used. Pixels are standardised as MNIST's are.
DatasetPair open_digits(const std::filesystem::path& directory, std::uint64_t seed);

}  // namespace lockstep
