// Samples that a data set contains more than once.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "src/data/dataset.h"

namespace lockstep {

/// Dataset::fingerprint() of these bytes: the beginning of their SHA-256.
std::uint64_t fingerprint_of(std::string_view bytes);

/// Adds notes that count samples of one part that are in another part too, and samples with a copy
/// in another class. Each names one example. Reads the content only of samples that share a
/// fingerprint, and calls `progress` for each. Throws Error if a file cannot be read now.
void note_copies(OpenedData& data, const std::function<void()>& progress);

}  // namespace lockstep
