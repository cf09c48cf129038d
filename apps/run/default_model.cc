#include "apps/run/default_model.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <system_error>

#include "apps/record/run_facts.h"
#include "apps/record/run_files.h"
#include "apps/record/run_place.h"
#include "net/initial_weights.h"
#include "src/base/table.h"
#include "src/base/text.h"
#include "src/data/image/names.h"
#include "src/report/stored_run.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// The options of length and batch, and others that recipe_for_photos() sets.
constexpr std::array kOwn{"steps", "epochs",        "batch",  "global-batch",
                          "lr",    "warmup-epochs", "sync-bn"};

/// The facts of a run, or of a file of weights; nothing: they cannot be read, or the model is not
/// one of models().
std::optional<RunFacts> facts_at(const fs::path& place) {
  try {
    std::error_code error;
    const auto facts = fs::is_directory(place, error)
                           ? stored_facts(place)
                           : RunFacts::of(place, initial_metadata(place));
    if (facts && facts->text("network").empty() && find_or_null(models(), facts->text("model"))) return facts;
  } catch (const Error&) {
  }
  return {};
}

/// Those of the run that continues; nothing: a new one begins.
std::optional<RunFacts> facts_before(const Options& o) {
  const std::string& how = o.checkpoints.resume;
  if (how != "auto" && how != "never") return facts_at(how);
  if (o.run.name.empty() || o.run.fresh) return {};
  return facts_at(named_folder(o.run.name));
}

/// The model whose name begins that of a file of weights, such as resnet18-f37072fd.pth; empty:
/// there is none.
std::string model_named_by(const fs::path& file) {
  const std::string name = lower_case(file.filename().string());
  std::string found;
  for (const ModelEntry& model : models()) {
    const std::size_t end = model.name.size();
    const bool whole = end >= name.size() || std::string_view("-_.").find(name[end]) != name.npos;
    if (name.starts_with(model.name) && whole && end > found.size()) found = model.name;
  }
  return found;
}

std::string model_of_weights(const std::string& init) {
  try {
    const fs::path place = path_of_run(init);
    const auto facts = facts_at(place);
    return facts ? facts->text("model") : model_named_by(place);
  } catch (const Error&) {
    return "";
  }
}

/// `recipe` with `others` in place of the same options.
Recipe with(Recipe recipe, const Recipe& others) {
  std::erase_if(recipe, [&](const auto& option) {
    return std::ranges::any_of(others, [&](const auto& o) { return o.first == option.first; });
  });
  recipe.insert(recipe.end(), others.begin(), others.end());
  return recipe;
}

/// The recipe of `model` with the options of `before` that defaults set.
Recipe recipe_as_before(const ModelEntry& model, const RunFacts& before) {
  Recipe recipe = model.recipe, as_before;
  std::erase_if(recipe,
                [](const auto& option) { return std::ranges::count(kOwn, option.first) > 0; });
  for (const char* name : kOwn) {
    const RunFacts::Json value = before.option(name);
    if (value.is_number() || value.is_boolean()) as_before.emplace_back(name, value.dump());
  }
  return with(recipe, as_before);
}

}  // namespace

Recipe recipe_for_photos(const ModelEntry& model, bool tuned) {
  constexpr int kBatch = 48;  // most numbers of cores divide it
  double rate = 0, batch = 0;
  Recipe recipe;
  for (const auto& [name, value] : model.recipe) {
    if (name == "lr") rate = std::stod(value);
    if (name == "global-batch") batch = std::stod(value);
    if (name != "steps" && name != "epochs" && name != "batch") recipe.emplace_back(name, value);
  }
  Recipe own{{"epochs", tuned ? "10" : "90"},
             {"global-batch", std::to_string(kBatch)},
             {"sync-bn", "true"}};  // many ranks have too few photos each for batch norm
  if (tuned) own.emplace_back("warmup-epochs", "1");
  if (rate > 0 && batch > 0)  // the linear scaling rule
    own.emplace_back("lr", fmt::format("{:.2g}", rate * kBatch / batch * (tuned ? 0.5 : 1)));
  return with(recipe, own);
}

DefaultModel default_for_photos(const Options& o, const DatasetEntry& data) {
  if (const auto before = facts_before(o)) {
    const ModelEntry& model = find(models(), before->text("model"));
    return {model.name, "the run began with it", recipe_as_before(model, *before)};
  }
  const bool tuned = !o.model.init.empty();
  const auto chosen = [&](std::string_view name, const std::string& why) {
    return DefaultModel{std::string(name), why, recipe_for_photos(find(models(), name), tuned)};
  };
  const std::string of_weights = tuned ? model_of_weights(o.model.init) : "";
  if (!of_weights.empty()) return chosen(of_weights, "the weights of --init are of it");
  const std::int64_t edge = o.data.images.size > 0       ? o.data.images.size
                            : data.usual_edge != nullptr ? data.usual_edge(o.data.folder)
                                                         : 0;
  if (edge == 0) return chosen(kPhotoModel, "it is made for photos");
  return chosen(edge < kSmallEdge ? kSmallImageModel : kPhotoModel,
                fmt::format("the images have about {} pixels", edge));
}

}  // namespace lockstep
