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
#include "src/data/names.h"
#include "src/report/stored_run.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// The options that recipe_for_photos() sets, and those that they replace.
constexpr std::array kOwn{"steps",   "epochs",        "batch",         "global-batch",
                          "sync-bn", "warmup-epochs", "lr-scale-batch"};

bool is_own(const std::pair<std::string, std::string>& option) {
  return std::ranges::count(kOwn, option.first) > 0;
}

/// The facts of a run, or of a file of weights; nothing: they cannot be read.
std::optional<RunFacts> facts_at(const fs::path& place) {
  try {
    std::error_code error;
    return fs::is_directory(place, error) ? stored_facts(place)
                                          : RunFacts::of(place, initial_metadata(place));
  } catch (const Error&) {
    return {};
  }
}

/// Empty: it is not one of models().
std::string model_of(const RunFacts& facts) {
  const std::string name = facts.text("model");
  return facts.text("network").empty() && find_or_null(models(), name) ? name : "";
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
  if (init.empty()) return "";
  try {
    const fs::path place = path_of_run(init);
    const auto facts = facts_at(place);
    const std::string known = facts ? model_of(*facts) : "";
    return known.empty() ? model_named_by(place) : known;
  } catch (const Error&) {
    return "";
  }
}

/// The recipe of `model` with the options of `before` that defaults set.
Recipe recipe_as_before(const ModelEntry& model, const RunFacts& before) {
  Recipe recipe = model.recipe;
  std::erase_if(recipe, [](const auto& option) { return is_own(option) || option.first == "lr"; });
  const auto keep = [&](const char* name) {
    const RunFacts::Json value = before.option(name);
    if (value.is_number() || value.is_boolean()) recipe.emplace_back(name, value.dump());
  };
  keep("lr");
  std::ranges::for_each(kOwn, keep);
  return recipe;
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
  if (warmup > 0) add("warmup-epochs", fmt::format("{:g}", warmup * kEpochs / epochs), "");
  if (!users) add("lr-scale-batch", std::to_string(tuned ? 2 * batch : batch), "");
  return recipe;
}

Recipe photo_recipe(const Options& o, const ModelEntry& model) {
  const auto before = facts_before(o);
  const bool same = before && before->text("model") == model.name &&
                    before->text("network").empty() == o.model.network.empty();
  return same ? recipe_as_before(model, *before)
              : recipe_for_photos(model, /*tuned=*/!o.model.init.empty());
}

DefaultModel default_for_photos(const Options& o, const DatasetEntry& data) {
  const auto before = facts_before(o);
  if (const std::string name = before ? model_of(*before) : ""; !name.empty())
    return {name, "the run began with it"};
  if (const std::string name = model_of_weights(o.model.init); !name.empty())
    return {name, "the weights of --init are of it"};
  const std::int64_t edge = o.data.images.size > 0       ? o.data.images.size
                            : data.usual_edge != nullptr ? data.usual_edge(o.data.folder)
                                                         : 0;
  const std::string_view model = edge > 0 && edge < kSmallEdge ? kSmallImageModel : kPhotoModel;
  return {std::string(model), edge == 0 ? "it is made for photos"
                                        : fmt::format("the images have about {} pixels", edge)};
}

}  // namespace lockstep
