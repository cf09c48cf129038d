#include "apps/run/training_program.h"

#include <algorithm>
#include <filesystem>

#include "apps/options/command_line.h"
#include "apps/options/help.h"
#include "apps/options/recipe.h"
#include "apps/record/run_facts.h"
#include "apps/record/run_place.h"
#include "apps/run/default_model.h"
#include "apps/run/trainer.h"
#include "collectives/world.h"
#include "net/description/network_file.h"
#include "src/base/machine.h"
#include "src/base/signals.h"
#include "src/base/table.h"
#include "src/base/text.h"
#include "src/files/file.h"

// Options are read in stages, because defaults depend on other values. The help needs all rows
// before a word is read, so it shows those of the default model. Then the words and the config file
// fill the rows. They decide the model, and its recipe fills the rows that are still open.
namespace lockstep {
namespace {

namespace fs = std::filesystem;

bool is_for_photos(const Program& program, const DatasetEntry& data) {
  return program.resizes && data.resizes;
}

/// Whether the program chooses the model by the photos.
bool chooses(const Program& program, const DatasetEntry& data) {
  return is_for_photos(program, data) && program.model.empty();
}

std::string_view default_model(const Program& program, const DatasetEntry& data) {
  if (chooses(program, data)) return kPhotoModel;
  return program.model.empty() ? data.model : program.model;
}

/// Adds the defaults of the default model to the help.
void describe_model(OptionRows& rows, const Program& program) {
  const DatasetEntry& data = find(datasets(), program.dataset);
  const ModelEntry& model = find(models(), default_model(program, data));
  const bool photos = is_for_photos(program, data);
  describe_recipe(rows, photos ? recipe_for_photos(model, /*tuned=*/false) : model.recipe,
                  "The default model " + model.name);
  if (!photos) return;
  const auto shown = [&](const std::string& name) -> std::string& {
    OptionRow& row = rows.at("--" + name);
    return row.of_recipe.empty() ? row.of_recipe = row.by_default : row.of_recipe;
  };
  for (const auto& [name, value] : recipe_for_photos(model, /*tuned=*/true))
    if (value != shown(name) && value != "true") shown(name) += "; " + value + " with --init";
  if (!rows.at("--lr-scale-batch").of_recipe.empty())
    shown("lr") += " for a batch of " + shown("lr-scale-batch");
  if (!chooses(program, data)) return;
  OptionRow& row = rows.at("--model");
  row.of_recipe = fmt::format("{}, below {} pixels {}", model.name, kSmallEdge, kSmallImageModel);
  row.about += "\nWith --init the default is the model that the file is named after.";
}

void declare(OptionRows& rows, Options& o, const Program& program, std::string& config) {
  const DatasetEntry& data = find(datasets(), program.dataset);
  if (program.declare_more) program.declare_more(rows);
  o.data.declare(rows, data);
  rows.text("--config", config, "FILE",
            "TOML file of options such as lr = 0.05\nThe command line overrides the file.")
      .common()
      .example("runs/first/config.toml")
      .is_of_command_line = true;
  o.model.declare(rows, default_model(program, data), program.as_published);
  o.declare(rows, data);
  rows.group("Instead of training");
  rows.flag("--check", o.check, "Setup and all checks without training")
      .also_called({"print-config"});
  rows.optional_number("--find-lr", o.find_lr.steps, Bounds::at_least(20, 1000000),
                       "Steps of a learning-rate range test, such as 100\n"
                       "The rate rises from 1e-6 to 10. A table shows the loss, and a suggestion "
                       "follows. The points are in runs/find-lr.")
      .only_if([] { return false; })
      .example("100");
  rows.flag("--list", o.list,
            "Names of models, data sets, optimizers, schedules, reducers and more")
      .common();
  rows.flag("--summary", o.summary,
            "Table of the model's layers and their parameters\n"
            "Without --data it shows the model's own samples.");
  describe_recipe(rows, program.recipe, program.name);
  describe_model(rows, program);
}

/// The checkpoint that the run continues from; empty: none.
fs::path checkpoint_of(const Options& o) {
  const std::string& how = o.checkpoints.resume;
  if (how != "auto" && how != "never") return how;
  if (o.run.name.empty() || how == "never") return {};
  const std::vector<fs::path> all = list_checkpoints(named_folder(o.run.name) / "checkpoints");
  return all.empty() ? fs::path() : all.front();
}

/// Sets name and text of the network from the file --model. If the file is gone, the text comes
/// from the run that --run or --resume continues, with a note. Throws the usage
/// Error if there is none.
void read_network(Options& o) {
  const fs::path file = o.model.given;
  o.model.name = one_line(file.stem().string());
  const fs::path checkpoint = is_gone(file) ? checkpoint_of(o) : fs::path();
  if (!checkpoint.empty())
    o.model.network = RunFacts::of(checkpoint, read_metadata(checkpoint)).text("network");
  if (o.model.network.empty()) {
    o.model.network = read_network_file(file);
  } else {
    o.notes.push_back(fmt::format("--model {} is gone, so {} gives the network", o.model.given,
                                  checkpoint.string()));
  }
}

/// The options of recipes for images in memory. Photos are cropped and mirrored as they are read.
bool is_for_images_in_memory(const std::pair<std::string, std::string>& option) {
  return option.first == "crop-padding" || option.first == "alternate-flips";
}

/// Chooses the data set and the model if the user names none. Returns the model.
const ModelEntry& choose_model(Options& o, const Program& program) {
  if (o.data.dataset.empty()) {
    const DatasetEntry* generated = stand_in(program.dataset);
    o.data.dataset = o.data.place.folders.empty() && generated ? generated->name : program.dataset;
  }
  const DatasetEntry& data = find(datasets(), o.data.dataset);
  std::string& given = o.model.given;
  if (o.model.as_published && !given.empty() && given != program.as_published)
    fail_usage("--as-published chooses --model {}. Remove --model {}.", program.as_published,
               given);
  if (o.model.as_published) given = program.as_published;
  if (given.empty() && chooses(program, data)) {
    const DefaultModel chosen = default_for_photos(o, data);
    given = chosen.name;
    o.model.why = chosen.why;
  }
  if (given.empty()) given = default_model(program, data);
  o.schedule.default_steps = data.steps;
  o.model.name = given;
  if (is_network_file(given)) read_network(o);
  const ModelEntry& model = o.entry = model_called(o.model.name, o.model.network, given);
  if (is_for_photos(program, data)) {
    o.entry.recipe = recipe_for_photos(model, /*tuned=*/!o.model.init.empty());
    if (o.data.images.size == 0) o.data.images.size = static_cast<int>(model.sample[1]);
  }
  if (o.data.images.size > 0) std::erase_if(o.entry.recipe, is_for_images_in_memory);
  // A network of one channel reads grey images.
  if (data.resizes && o.data.images.colours == "auto" && !model.any_image &&
      model.sample.rank() == 4 && model.sample[3] == 1) {
    o.data.images.colours = "grey";
  }
  return model;
}

/// Lets the command line override a config file that has --no-run or --run. Throws the usage error
/// if one of them has both.
void resolve_folder(RunFolderOptions& run, OptionRows& rows) {
  if (!run.none || (run.name.empty() && !run.fresh)) return;
  const OptionRow &none = rows.at("--no-run"),
                  &kept = rows.at(run.name.empty() ? "--new" : "--run");
  if (none.source == kept.source)
    fail_usage("{} keeps no run, and {} begins one. Pass one of them.", none.where(), kept.where());
  if (none.source > kept.source) {
    run.name.clear();
    run.fresh = false;
  } else {
    run.none = false;
  }
}

/// --find-lr trains for its steps and keeps only its file.
void settle_range_test(Options& o, OptionRows& rows) {
  if (o.find_lr.steps == 0) return;
  const std::string& how = o.checkpoints.resume;
  if (how != "auto" && how != "never")
    fail_usage("--find-lr does not resume {}. Pass --init to begin with its weights.", how);
  const std::string name = o.run.name.empty() ? o.program + "-" + o.model.name
                                              : named_folder(o.run.name).filename().string();
  if (!o.run.none) o.find_lr.file = "runs/find-lr/" + name + ".json";
  o.schedule.steps = o.find_lr.steps;
  o.schedule.epochs = 0;
  // The suggestion is for --lr, with which no recipe scales it.
  if (!rows.at("--lr-scale-batch").given()) o.schedule.rate_batch = 0;
  o.run.name.clear();
  o.run.fresh = false;
  o.run.none = true;
  o.reports.trace.clear();
}

/// The options in which all ranks must agree. Ranks on different processors may limit their own
/// instruction set; the summary compares their arithmetic.
std::string common_options(const Options& options) {
  std::vector<std::string> lines = lines_of(options.text());
  std::erase_if(lines, [](const std::string& line) { return line.starts_with("isa="); });
  return joined(lines, "\n");
}

}  // namespace

std::unique_ptr<const Options> parse_options(int argc, char** argv, const Program& program,
                                             std::string& text_to_print) {
  if (program.begin) program.begin();
  auto options = std::make_unique<Options>();
  Options& o = *options;
  o.program = program.name;
  for (int i = 0; i < argc; ++i) o.words.push_back(shell_word(argv[i]));
  OptionRows rows;
  std::string config;
  declare(rows, o, program, config);
  const bool needs_data = program.resizes || find(datasets(), program.dataset).texts;
  const ProgramText text{program.name,
                         program.about.empty() ? "Trains a classifier on the data set " +
                                                     program.dataset + ", on all ranks"
                                               : program.about,
                         fmt::format("lockstep_run -np 4 {} {}[OPTIONS]", program.name,
                                     needs_data ? "--data DIR " : "")};
  if (!read_command_line(rows, text, argc, argv, text_to_print)) return nullptr;
  if (!config.empty()) read_config(config, rows);
  if (o.list) {
    text_to_print = registries_text();
    return nullptr;
  }
  o.read_environment();
  // The recipe of the program comes first. That of the model, which choose_model() finds, overrides
  // it. Checks follow when each row has its value.
  follow_recipe(rows, program.recipe, program.name);
  const ModelEntry& model = choose_model(o, program);
  follow_recipe(rows, model.recipe, o.model.given);
  resolve_folder(o.run, rows);
  rows.check_exclusions();
  o.data.check(rows, /*opened=*/!o.summary);
  o.optimizer.finish(rows);
  make_optimizer(o.optimizer.name, o.optimizer.own);  // throws if its options do not go together
  o.schedule.finish(rows, find(optimizers(), o.optimizer.name));
  settle_range_test(o, rows);
  o.values = option_values(rows);
  if (o.find_lr.steps == 0) {
    const std::vector<std::string> idle = rows.idle();
    o.notes.insert(o.notes.end(), idle.begin(), idle.end());
  }
  return options;
}

int run_training_program(int argc, char** argv, const Program& program) {
  // Before MPI and any thread, which inherit the mask of signals.
  const Signals signals;
  std::unique_ptr<const Options> options;
  const auto parse = [&](std::string& answer) {
    options = parse_options(argc, argv, program, answer);
    return options != nullptr;
  };
  return run_or_print_help(argc, argv, program.name.c_str(), parse, [&](World& world) {
    // Other builds may disagree on the collective calls that follow.
    expect_same(world.comm(), "builds",
                fmt::format("build = {}, checksum {}", build_name(), program_checksum()));
    expect_same(world.comm(), "options", common_options(*options));
    expect_same(world.comm(), "networks", options->model.network);
    return train(world, *options, [&] { return signals.stop_requested(); });
  });
}

}  // namespace lockstep
