// Additions of arrays of floats.
#pragma once

#include <cstdint>
#include <span>

namespace lockstep {

/// to[i] += from[i]. The arrays do not overlap.
void add(float* to, const float* from, std::int64_t count);

/// Replaces each of `parts`, arrays of `count` floats, by the sum of all in the canonical order
/// (collectives/schedule.h). The arrays do not overlap. Each is read once and written once.
void sum_canonically(std::span<float* const> parts, std::int64_t count);

}  // namespace lockstep
