// Tests of every model of the registry.
#pragma once

#include <gtest/gtest.h>

#include "net/model.h"

namespace lockstep {

/// Images of photos' size would take minutes.
inline Shape sample_of(const ModelEntry& entry) {
  const bool large = entry.any_image && !entry.words && entry.sample[1] > 64;
  return large ? Shape{1, 64, 64, entry.sample[3]} : entry.sample;
}

class EveryModel : public testing::TestWithParam<const ModelEntry*> {};

INSTANTIATE_TEST_SUITE_P(Models, EveryModel, testing::ValuesIn([] {
                           std::vector<const ModelEntry*> entries;
                           for (const ModelEntry& entry : models()) entries.push_back(&entry);
                           return entries;
                         }()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace lockstep
