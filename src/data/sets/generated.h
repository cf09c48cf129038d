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
  /// images or digits.
  Records records = Records::none;
  std::vector<std::string> class_names;
  std::int64_t train = 0, test = 0;
  /// Draws the record of a sample of class `label`. Sample i is of class i mod their number.
  void (*draw)(int label, Random& random, std::uint8_t* record) = nullptr;
};

DatasetPair generate(const GeneratedSpec& spec, std::uint64_t seed);

}  // namespace lockstep
