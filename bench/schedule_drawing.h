// The schedule of an all-reduce in words and as a picture.
#pragma once

#include <cstdint>
#include <string>

#include "collectives/algorithms/algorithms.h"

namespace lockstep {

/// The actions of each rank in each round: "rank 0 sends 8..15 to 1, adds 0..7 from 1".
std::string explain(const AlgorithmEntry& algorithm, int ranks, std::int64_t elements);

/// An SVG document: ranks across, rounds down, and an arrow for each message with its elements. A
/// dashed arrow is copied where it arrives; the others are added.
std::string draw(const AlgorithmEntry& algorithm, int ranks, std::int64_t elements);

}  // namespace lockstep
