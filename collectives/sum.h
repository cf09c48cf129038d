// Additions of arrays of floats.
#pragma once

#include <cstdint>
#include <span>

#include "collectives/shares.h"

namespace lockstep {

/// to[i] += from[i]. The arrays do not overlap.
void add(float* to, const float* from, std::int64_t count);

/// Adds `rows`, arrays of `count` floats, in the order of `fold`. If one sum is left, each of
/// `results` gets it; else results[n] gets the sum of row fold.left[n] and those after it. Arrays
/// coincide or are disjoint; a result may be any of the rows. Each row is read once and each result
/// written once.
void sum_rows(const Fold& fold, std::span<float* const> rows, std::span<float* const> results,
              std::int64_t count);

/// Replaces each of `parts` by the sum of all, as if they were shards.
void sum_canonically(std::span<float* const> parts, std::int64_t count);

}  // namespace lockstep
