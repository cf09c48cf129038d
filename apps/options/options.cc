#include "apps/options/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "apps/options/command_line.h"
#include "apps/options/config_file.h"
#include "apps/options/conflicts.h"
#include "apps/options/help.h"
#include "collectives/buckets.h"
#include "collectives/reducer.h"
#include "net/model.h"
#include "src/base/machine.h"
#include "src/base/table.h"
#include "src/device/cpu/convolution.h"
#include "src/device/cpu/instruction_set.h"
#include "src/device/devices.h"

namespace lockstep {
namespace {

constexpr const char* kInsteadOfTraining = "Instead of training";

void declare(OptionRows& rows, Options& o, const Program& program) {
  const DatasetEntry& data = find(datasets(), program.dataset);
  o.data.declare(rows, data);
  o.model.declare(rows, data.model, program.as_published);
  o.schedule.declare(rows, data);
  o.optimizer.declare(rows);
  o.ranks.declare(rows);
  o.device.declare(rows);
  o.reports.declare(rows);
  o.checkpoints.declare(rows);
  rows.group(kInsteadOfTraining);
  rows.flag("--check", o.check, "Setup and all checks without training");
  rows.flag("--list", o.list,
            "Names of models, data sets, optimizers, schedules, reducers and more")
      .common();
  rows.flag("--summary", o.summary, "Table of the model's layers and their parameters");
}

/// The data set and the model where the user names none.
void choose_model(Options& o, const Program& program) {
  if (o.data.dataset.empty()) {
    const DatasetEntry* generated = stand_in(program.dataset);
    o.data.dataset = o.data.folder.empty() && generated ? generated->name : program.dataset;
  }
  const DatasetEntry& data = find(datasets(), o.data.dataset);
  if (o.model.as_published && !o.model.name.empty()) {
    fail_usage("--as-published chooses --model {}: leave --model {} out", program.as_published,
               o.model.name);
  }
  if (o.model.as_published) o.model.name = program.as_published;
  if (o.model.name.empty()) o.model.name = data.model;
  o.schedule.default_steps = data.steps;
}

/// Whether the user's own options stand against `name` of the model's recipe.
bool overrides_recipe(OptionRows& rows, std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kSame[] = {
      {"--epochs", "--steps"},
      {"--steps", "--epochs"},
      {"--batch", "--global-batch"},
      {"--global-batch", "--batch"},
      {"--epoch-lines", "--eval-every"}};
  const bool same = std::any_of(std::begin(kSame), std::end(kSame), [&](const auto& pair) {
    return pair.first == name && rows.at(pair.second).given();
  });
  const bool of_optimizer = name == "--lr" || name == "--group" || is_of_optimizers(name.substr(2));
  return same || rows.at(name).given() || (of_optimizer && rows.at("--optimizer").given());
}

/// Reads "name = value, name = value".
void follow_recipe(OptionRows& rows, std::string_view recipe) {
  while (!recipe.empty()) {
    const std::string_view line = recipe.substr(0, recipe.find(", "));
    recipe.remove_prefix(std::min(line.size() + 2, recipe.size()));
    const std::size_t equals = line.find(" = ");
    expect(equals != line.npos, "a recipe is name = value, ...");
    const std::string name = fmt::format("--{}", line.substr(0, equals));
    if (!overrides_recipe(rows, name))
      rows.at(name).set(std::string(line.substr(equals + 3)), OptionRow::Source::recipe);
  }
}

template <class Table>
std::string menu(std::string_view title, const Table& table) {
  std::string text = fmt::format("{}\n", title);
  for (const auto& entry : table) text += fmt::format("  {:<18} {}\n", entry.name, entry.about);
  return text;
}

}  // namespace

std::unique_ptr<const Options> parse_options(int argc, char** argv, const Program& program,
                                             std::string& text_to_print) {
  auto options = std::make_unique<Options>();
  Options& o = *options;
  o.program = program.name;
  OptionRows rows;
  declare(rows, o, program);
  CLI::App app(
      "Trains a classifier on the data set " + program.dataset + ": mpirun -np N ./" + program.name,
      program.name);
  add_rows(app, rows);
  std::string config;
  app.add_option("--config", config,
                 "TOML file of options: lr = 0.05, batch = 64, ... The command line wins")
      ->type_name("FILE")
      ->group("Data");
  if (!read_command_line(app, argc, argv, kInsteadOfTraining, text_to_print)) return nullptr;
  if (app.count("--config") > 0) read_config(home_path("--config", config), app, rows);
  if (o.list) {
    text_to_print = menus();
    return nullptr;
  }
  o.schedule.seed_given = rows.at("--seed").given();
  o.schedule.batch_given = rows.at("--batch").given() || rows.at("--global-batch").given();
  o.schedule.shards_given = rows.at("--shards").given();
  choose_model(o, program);
  follow_recipe(rows, find(models(), o.model.name).recipe);
  check_together(o, rows);
  o.optimizer.finish(rows);
  make_optimizer(o.optimizer.name, o.optimizer.own);  // throws if its options do not go together
  if (rows.at("--lr").source == OptionRow::Source::initial)
    o.schedule.rate.base = find(optimizers(), o.optimizer.name).rate;
  o.text = config_text(rows);
  o.shaping = shaping_options(rows);
  o.notes = idle_options(o);
  return options;
}

std::string menus() {
  constexpr std::size_t kAbout = 21;  // where an entry's line begins
  return wrapped(
      menu("models", models()) + menu("data sets", datasets()) + menu("optimizers", optimizers()) +
          menu("learning-rate schedules", rate_schedules()) + menu("reducers", reducers()) +
          menu("progress policies", policies()) + menu("devices", devices()) +
          menu("convolutions", convolutions()) + menu("instruction sets", instruction_sets()),
      kAbout);
}

}  // namespace lockstep
