#include "apps/run/default_model.h"

#include <algorithm>
#include <array>

#include "src/base/text.h"
#include "src/data/names.h"

namespace lockstep {
namespace {

/// The options that recipe_for_photos() sets, and those that they replace.
constexpr std::array kOwn{"steps",   "epochs",        "batch",         "global-batch",
                          "sync-bn", "warmup-epochs", "lr-scale-batch"};

bool is_own(const std::pair<std::string, std::string>& option) {
  return std::ranges::count(kOwn, option.first) > 0;
}

/// The model whose name begins that of a file of weights, such as resnet18-f37072fd.pth; empty:
/// there is none.
std::string model_named_by(const std::string& path) {
  const std::string name = lower_case(path.substr(path.rfind('/') + 1));
  std::string found;
  for (const ModelEntry& model : models()) {
    const std::size_t end = model.name.size();
    // Whole words only, and the longest name that fits: resnet18 is not a model resnet1.
    const bool whole = end >= name.size() || std::string_view("-_.").find(name[end]) != name.npos;
    if (name.starts_with(model.name) && whole && end > found.size()) found = model.name;
  }
  return found;
}

}  // namespace

Recipe recipe_for_photos(const ModelEntry& model, bool tuned) {
  constexpr double kEpochs = 90;
  const bool users = model.own && !model.recipe.empty();
  std::int64_t batch = 128;  // without --batch
  double epochs = kEpochs, warmup = 0;
  for (const auto& [name, value] : users ? Recipe{} : model.recipe) {  // theirs may be wrong
    if (name == "batch" || name == "global-batch") batch = std::stoll(value);
    if (name == "epochs") epochs = std::stod(value);
    if (name == "warmup-epochs") warmup = std::stod(value);
  }
  Recipe recipe = model.recipe;
  if (!users) std::erase_if(recipe, is_own);
  const auto add = [&](std::string_view name, const std::string& value, std::string_view same) {
    const auto sets = [&](const auto& o) { return o.first == name || o.first == same; };
    if (std::ranges::none_of(recipe, sets)) recipe.emplace_back(name, value);
  };
  add("epochs", tuned ? "10" : fmt::format("{:g}", kEpochs), "steps");
  add("global-batch", "48", "batch");  // most numbers of cores divide it
  add("sync-bn", "true", "");          // many ranks have too few photos each for batch norm
  if (tuned) add("warmup-epochs", "1", "");
  // The warm-up keeps its share of the length.
  if (warmup > 0) add("warmup-epochs", fmt::format("{:g}", warmup * kEpochs / epochs), "");
  if (!users) add("lr-scale-batch", std::to_string(tuned ? 2 * batch : batch), "");
  return recipe;
}

DefaultModel default_for_photos(const Options& o, const DatasetEntry& data) {
  if (const std::string name = model_named_by(o.model.init); !name.empty())
    return {name, "the file of --init is named so"};
  std::int64_t edge = o.data.images.size;  // 0: not set
  if (edge == 0 && data.usual_edge != nullptr) edge = data.usual_edge(o.data.place.folder());
  const std::string_view model = edge > 0 && edge < kSmallEdge ? kSmallImageModel : kPhotoModel;
  return {std::string(model), edge == 0 ? "it is made for photos"
                                        : fmt::format("the images have about {} pixels", edge)};
}

}  // namespace lockstep
