// What generated data sets share: samples that are drawn whenever they are read, with numbers keyed
// by (seed, part, index), so that nothing is stored.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/data/dataset.h"

namespace lockstep {

struct GeneratedSpec {
  /// "generated shapes and textures", for people.
  std::string about;
  /// "generated images": what checkpoints call them (DatasetPair::identity).
  std::string name;
  SampleFormat format;
  std::vector<std::string> class_names;
  std::int64_t train = 0, test = 0;
  /// Draws the stored bytes of a sample of class `label`. Sample i is of class i mod their number.
  void (*draw)(int label, Random& random, std::uint8_t* bytes) = nullptr;
};

DatasetPair generate(const GeneratedSpec& spec, std::uint64_t seed);

}  // namespace lockstep
