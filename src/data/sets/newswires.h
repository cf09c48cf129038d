// Reuters' newswires of 1987 by topic, as Keras reads them, and generated texts of their shape.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/data/dataset.h"

namespace lockstep {

/// Words are numbered below this: 0 is padding, 1 the start of a text, 2 a word that is left out, 4
/// the most frequent word.
inline constexpr std::int32_t kNewswireWords = kWordNumbers;
/// Words of a text that a network reads: the last ones, after padding if the text is shorter.
inline constexpr std::int64_t kNewswireLength = 300;
inline constexpr SampleFormat kNewswireFormat{.kind = SampleFormat::Kind::words,
                                              .size = {1, kNewswireLength, 1}};
inline constexpr int kTopics = 46;
/// "cocoa", "grain", ...: kTopics of them.
std::vector<std::string> topic_names();

/// `directory` holds reuters.h5, which scripts/convert_reuters.py makes of Keras' reuters.npz: the
/// arrays values (the words of all texts), offsets (of each text in it, and their end) and labels,
/// and how many of the texts are for training in the attribute `train`. Reads and checks
/// all now. Throws Error that names the file and the fix. Each process holds the words (7 MiB).
OpenedData open_reuters(const DataSource& source);

}  // namespace lockstep
