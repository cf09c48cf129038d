// Generated data sets: a sample is drawn when it is read, with random numbers of (seed, part,
// index). Nothing is stored.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/elementary.h"
#include "src/data/dataset.h"

namespace lockstep {

struct GeneratedSpec {
  /// "generated shapes and textures", for people.
  std::string about;
  /// "generated images": what checkpoints call them (OpenedData::identity).
  std::string name;
  std::string unit = "images";  ///< what its samples are
  SampleFormat format;
  std::vector<std::string> class_names;
  std::int64_t train = 0, test = 0;
  /// Draws the stored bytes of a sample of class `label`. Sample i belongs to class i mod classes.
  void (*draw)(int label, Random& random, std::uint8_t* bytes) = nullptr;
};

/// The cosine and the sine of an angle in radians.
struct Direction {
  explicit Direction(float angle)
      : cosine(static_cast<float>(cosine_of_turns(angle * kTurnsOfRadian))),
        sine(static_cast<float>(sine_of_turns(angle * kTurnsOfRadian))) {}
  float cosine, sine;
};

OpenedData generate(const GeneratedSpec& spec, std::uint64_t seed);

}  // namespace lockstep
