// Options of the model and its arithmetic.
#pragma once

#include <string>

#include "net/sizes/image_stages.h"
#include "src/base/option_rows.h"
#include "src/base/view.h"

namespace lockstep {

/// Whether --model `model` is a file of layers, and not the name of a model.
bool is_network_file(const std::string& model);

struct ModelOptions {
  std::string given;    ///< --model: a name, or a file of layers; after parsing never empty
  std::string name;     ///< after parsing one of models(), or the file's name without ".toml"
  std::string network;  ///< the text of the file (net/description/network_file.h); empty: none
  std::string why;      ///< for people: why the program chose it; empty: the user names it
  Type precision = Type::f32;
  std::string init;      ///< a checkpoint whose weights the run begins with; empty: random ones
  bool sync_bn = false;  ///< batch norm uses the mean and variance of all shards
  bool as_published = false;
  ImageStages small_images;  ///< of the first epochs; empty: all images have all pixels

  /// `by_default`: the data set's model. `published`: the model that --as-published chooses; empty:
  /// there is no such option.
  void declare(OptionRows& rows, std::string_view by_default, const std::string& published);
};

}  // namespace lockstep
