// Defaults of a run on photos: the model if the user names none, and for each model a length, a
// batch and a learning rate for sets of some hundred to some ten thousand photos on CPU cores.
#pragma once

#include <string>
#include <string_view>

#include "apps/options/run_options.h"
#include "net/model.h"
#include "src/data/dataset.h"

namespace lockstep {

inline constexpr std::string_view kPhotoModel = "resnet18", kSmallImageModel = "resnet20";
/// Images whose shorter edge has fewer pixels are small.
inline constexpr int kSmallEdge = 64;

struct DefaultModel {
  std::string name;  ///< one of models()
  std::string why;   ///< for people: "the images have about 32 pixels"
};

/// The model that the file of --init is named after, or else one for the size of the images. It is
/// the same on all ranks that see the same files. Throws nothing: a file that cannot be read is
/// left to those who need it.
DefaultModel default_for_photos(const Options& o, const DatasetEntry& data);

/// The recipe of `model` with the length and the batch of a small set. Its rate is scaled to the
/// batch. `tuned`: the weights are those of others, so the rate is half of it, after a warm-up. A
/// recipe of the user's own network keeps its length, its batch and its rate.
Recipe recipe_for_photos(const ModelEntry& model, bool tuned);

}  // namespace lockstep
