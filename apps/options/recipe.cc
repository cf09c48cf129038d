#include "apps/options/recipe.h"

#include <algorithm>

#include "net/optimizer.h"
#include "src/base/check.h"
#include "src/base/table.h"
#include "src/base/text.h"

namespace lockstep {
namespace {

/// Whether a recipe may set the option: it chooses neither data nor files.
bool is_of_recipes(const OptionRow& row) {
  const bool is_path = row.type == OptionRow::Type::text && row.values.empty();
  return !row.is_of_command_line && !is_path && row.name != "--dataset" && row.name != "--model" &&
         row.group != "Run" && row.group != "Checkpoints";
}

}  // namespace

void describe_recipe(OptionRows& rows, const Recipe& recipe, const std::string& owner) {
  OptionRow& rate = rows.at("--lr");
  for (const auto& [name, value] : recipe) {
    OptionRow& row = rows.at("--" + name);
    row.about += fmt::format("\n{} sets {}.", owner, value);
    row.of_recipe = value == "true" ? "on" : value;
    for (OptionRow& other : rows.all())
      if (row.is_against(other)) other.of_recipe = "set by " + row.name;
    if (name != "optimizer" || !rate.of_recipe.empty()) continue;
    rate.about += fmt::format("\n{} uses {}.", owner, value);
    rate.of_recipe = fmt::format("{:g}", find(optimizers(), value).rate);  // unless lr follows
  }
}

void follow_recipe(OptionRows& rows, const Recipe& recipe, const std::string& from) {
  // The user may repeat the recipe's --optimizer. Then the options that follow it stay too.
  if (const auto own = std::ranges::find(recipe, "optimizer", &Recipe::value_type::first);
      own != recipe.end()) {
    OptionRow& row = rows.at("--optimizer");
    if (row.given() && row.show() == own->second) row.source = OptionRow::Source::recipe;
  }
  for (const auto& [option, value] : recipe) {
    OptionRow* row = rows.find("--" + option);
    if (!row || !is_of_recipes(*row))
      fail_usage("{}: recipe: {} is no option of a recipe. Remove it.", from, one_line(option));
    if (rows.overrides_recipe(*row)) continue;
    try {
      row->set(value, OptionRow::Source::recipe);
    } catch (const Error& error) {
      fail_usage("{}: recipe: {}", from, error.what());
    }
  }
}

}  // namespace lockstep
