// Adding arrays of floats.
#pragma once

#include <cstdint>
#include <span>

#include "src/device/device.h"

namespace lockstep {

/// to[i] += from[i]. The arrays do not overlap.
void add(float* to, const float* from, std::int64_t count);

/// Each of `parts`, arrays of `count` floats, becomes the sum of them all in the canonical order
/// (collectives/schedule.h). They do not overlap. Each is read once and written once.
void sum_canonically(std::span<float* const> parts, std::int64_t count);
/// Gives the same, the same bits, to `stream`, for at most 8 parts in memory of its device.
void sum_canonically(Stream& stream, std::span<float* const> parts, std::int64_t count);

}  // namespace lockstep
