// Adding arrays of floats.
#pragma once

#include <cstdint>
#include <span>

namespace lockstep {

/// to[i] += from[i]. The arrays do not overlap.
void add(float* to, const float* from, std::int64_t count);

/// Sums `parts` (one array each) in the canonical order (collectives/schedule.h) and writes the sum
/// to all of `results`, which may be the parts themselves. Block by block through the first-level
/// cache: each part is read once, each result written once.
void sum_canonically(std::span<const float* const> parts, std::span<float* const> results,
                     std::int64_t count);

}  // namespace lockstep
