// A Normalisation and a SampleFormat (src/data/dataset.h) as the texts that checkpoints contain.
#pragma once

#include <cstdint>
#include <string>

#include "src/data/dataset.h"

namespace lockstep {

/// JSON: {"mean": [125.3, 122.9, 113.8], "deviation": [62.9, 62.1, 66.7]}, a number per channel.
/// A network sees (pixel - mean) / deviation of pixels from 0 to 255.
std::string to_text(const Normalisation& normalisation, std::int64_t channels);

/// The same bits back. Throws Error if `text` is no such text, or is of another number of channels.
Normalisation normalisation_from(const std::string& text, std::int64_t channels);

/// Whether a Normalisation normalises samples of this format.
inline bool is_normalised(const SampleFormat& format) {
  return format.files || format.kind == SampleFormat::Kind::images;
}

/// JSON of kind, size and channels, from which format_from() makes a format of whole images or
/// crops again: {"kind": "images", "height": 32, "width": 32, "channels": 3, ...}.
std::string to_text(const SampleFormat& format);
/// Throws Error if `text` is no such text.
SampleFormat format_from(const std::string& text);

}  // namespace lockstep
