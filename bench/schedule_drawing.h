// An all-reduce for people who look: its schedule in words and as a picture.
#pragma once

#include <cstdint>
#include <string>

#include "collectives/algorithms/algorithms.h"

namespace lockstep {

/// Round by round, what each rank sends, adds and copies: "rank 0 sends 8..15 to 1, adds 0..7 from
/// 1".
std::string explain(const AlgorithmEntry& algorithm, int ranks, std::int64_t elements);

/// An SVG document: ranks across, rounds down, an arrow for each message with the elements that it
/// carries; added where it arrives, or copied (dashed).
std::string draw(const AlgorithmEntry& algorithm, int ranks, std::int64_t elements);

}  // namespace lockstep
