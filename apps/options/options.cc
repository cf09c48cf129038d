#include "apps/options/options.h"

#include <algorithm>
#include <utility>

#include "apps/options/command_line.h"
#include "apps/options/config_file.h"
#include "apps/options/conflicts.h"
#include "apps/options/menus.h"
#include "net/model.h"
#include "src/base/table.h"

namespace lockstep {
namespace {

void declare(OptionRows& rows, Options& o, const Program& program, std::string& config) {
  const DatasetEntry& data = find(datasets(), program.dataset);
  o.data.declare(rows, data);
  o.model.declare(rows, data.model, program.as_published);
  o.schedule.declare(rows, data);
  o.optimizer.declare(rows);
  o.ranks.declare(rows);
  o.device.declare(rows);
  o.reports.declare(rows);
  o.checkpoints.declare(rows);
  rows.group("Data");
  rows.text("--config", config, "FILE",
            "TOML file of options such as lr = 0.05\nThe command line overrides the file.")
      .common()
      .only_on_command_line();
  rows.group("Instead of training");
  rows.flag("--check", o.check, "Setup and all checks without training");
  rows.flag("--list", o.list,
            "Names of models, data sets, optimizers, schedules, reducers and more")
      .common();
  rows.flag("--summary", o.summary, "Table of the model's layers and their parameters");
}

/// Chooses the data set and the model if the user names none.
void choose_model(Options& o, const Program& program) {
  if (o.data.dataset.empty()) {
    const DatasetEntry* generated = stand_in(program.dataset);
    o.data.dataset = o.data.folder.empty() && generated ? generated->name : program.dataset;
  }
  const DatasetEntry& data = find(datasets(), o.data.dataset);
  if (o.model.as_published && !o.model.name.empty()) {
    fail_usage("--as-published chooses --model {}. Remove --model {}.", program.as_published,
               o.model.name);
  }
  if (o.model.as_published) o.model.name = program.as_published;
  if (o.model.name.empty()) o.model.name = data.model;
  o.schedule.default_steps = data.steps;
}

/// Whether the user's options override `name` of the model's recipe.
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

}  // namespace

std::unique_ptr<const Options> parse_options(int argc, char** argv, const Program& program,
                                             std::string& text_to_print) {
  auto options = std::make_unique<Options>();
  Options& o = *options;
  o.program = program.name;
  OptionRows rows;
  std::string config;
  declare(rows, o, program, config);
  const ProgramText text{
      program.name, "Trains a classifier on the data set " + program.dataset + ", on all ranks",
      "mpirun -np 4 " + program.name + " [OPTIONS]"};
  if (!read_command_line(rows, text, argc, argv, text_to_print)) return nullptr;
  if (!config.empty()) read_config(config, rows);
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

}  // namespace lockstep
