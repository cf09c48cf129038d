// Evaluates checkpoints on the test set: once, or again for every new one in a folder. mpirun -np N
// ./evaluate shares the work.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <set>
#include <thread>

#include "apps/command_line.h"
#include "apps/evaluation.h"
#include "apps/help.h"
#include "apps/option_set.h"
#include "apps/placement.h"
#include "apps/reporter.h"
#include "apps/signals.h"
#include "collectives/comm.h"
#include "collectives/watchdog.h"
#include "net/checkpoint.h"
#include "src/data/dataset.h"
#include "src/hdf5.h"
#include "src/machine.h"

namespace lockstep {
namespace {

struct EvaluateOptions {
  std::string checkpoint, weights = "ema", data, precision;
  bool follow = false, no_confusion = false;
  double interval = 60;
  int threads = 0;
};

/// False where --help or the like has said all; `text` is then what to print.
bool parse(int argc, char** argv, EvaluateOptions& o, std::string& text) {
  CLI::App app("Evaluates checkpoints of train_cifar on the test set", "evaluate");
  app.allow_extras();
  app.add_option("checkpoint", o.checkpoint,
                 "A checkpoint, step-NNNNNNNNNN.h5, or a folder: its newest")
      ->required();
  OptionSet set(app);
  set.group("Options");
  set.text("--weights", o.weights, "NAME", "ema: the moving average; raw: the weights themselves",
           one_of("--weights", {"ema", "raw"}));
  set.text("--data", o.data, "DIR",
           "Folder with the official files, for checkpoints trained on them");
  set.text("--precision", o.precision, "TYPE", "fp32 or bf16 [as trained]",
           one_of("--precision", {"fp32", "bf16"}));
  set.flag("--follow", o.follow, "Stay, and evaluate every new checkpoint of the folder");
  set.number("--interval", o.interval, Bounds::above_zero(kLongestTime),
             "Seconds between looks into the folder");
  set.flag("--no-confusion", o.no_confusion,
           "Leave out the table of which class was taken for which");
  set.optional_number("--threads", o.threads, Bounds::at_least(1),
                      "Threads per rank [the node's cores shared out]");
  app.set_version_flag("--version", build_name());
  check_words(argc, argv);
  try {
    app.parse(argc, argv);
    if (!app.remaining().empty()) fail_extra(app);
  } catch (const CLI::CallForHelp&) {
    text = help_text(app);
    return false;
  } catch (const CLI::CallForVersion& version) {
    text = std::string(version.what()) + "\n";
    return false;
  } catch (const CLI::ParseError& error) {
    if (!app.remaining().empty()) fail_extra(app);
    fail_usage("{}; --help lists all options", error.what());
  }
  if (o.follow && !std::filesystem::is_directory(o.checkpoint)) {
    fail_usage("--follow wants a folder of checkpoints, and {} is none", o.checkpoint);
  }
  return true;
}

/// The checkpoint to evaluate now; empty if the folder holds none. What is wrong with others is
/// said once: `said` remembers.
std::string newest_file(const EvaluateOptions& o, std::set<std::string>& said) {
  if (!std::filesystem::is_directory(o.checkpoint)) {
    verify_checkpoint(o.checkpoint);
    return o.checkpoint;
  }
  const Newest newest = newest_good(o.checkpoint);
  for (const std::string& warning : newest.warnings) {
    if (said.insert(warning).second) fmt::print(stderr, "evaluate: {}\n", warning);
  }
  if (!newest.file && !o.follow) fail("{} holds no checkpoint (step-NNNNNNNNNN.h5)", o.checkpoint);
  return newest.file ? newest.file->string() : "";
}

/// At most 80 columns for ten classes.
std::string confusion_table(const EvaluationResult& result, const std::vector<std::string>& names) {
  std::string text = "true/taken";
  for (const std::string& name : names) text += fmt::format(" {:>5.5}", name);
  text += "    right\n";
  for (std::size_t truth = 0; truth < names.size(); ++truth) {
    text += fmt::format("{:>10.10}", names[truth]);
    std::int64_t all = 0;
    for (std::size_t taken = 0; taken < names.size(); ++taken) {
      const std::int64_t cell = result.confusion[truth * names.size() + taken];
      all += cell;
      text += fmt::format(" {:>5}", cell);
    }
    const auto right = static_cast<double>(result.confusion[truth * names.size() + truth]);
    text += fmt::format(" {:>6.1f} %\n",
                        100 * right / static_cast<double>(std::max<std::int64_t>(all, 1)));
  }
  return text;
}

/// One checkpoint, all ranks. What it was trained on decides what it is tested on. False where a
/// rank was asked to stop.
bool evaluate_file(const Comm& comm, Device& device, const EvaluateOptions& o,
                   const std::string& file, const Signals& signals) {
  CheckpointFacts facts;
  DatasetPair data;
  std::unique_ptr<Evaluation> evaluation;
  std::vector<float> arena;
  agree(comm, [&] {
    facts = read_facts(file);
    const auto text = [&](const char* name) {
      const auto found = facts.texts.find(name);
      require(found != facts.texts.end(),
              "{} does not name its {}: it was not written by train_cifar", file, name);
      return found->second;
    };
    const std::string dataset = o.data.empty() ? text("dataset") : "cifar10";
    require(dataset == "synthetic" || !o.data.empty(), "{} was trained on {}: say --data DIR", file,
            dataset);
    data = open_dataset(dataset, o.data, facts.position.seed);
    const std::string precision = o.precision.empty() ? text("precision") : o.precision;
    evaluation = std::make_unique<Evaluation>(device, find_model(text("model")), *data.test,
                                              precision == "bf16" ? Type::bf16 : Type::f32);
    const Layout& layout = evaluation->model().layout();
    require(o.weights == "raw" || Hdf5Reader(file).has("ema/" + layout.parameters.front().name),
            "{} has no averaged weights (--ema 0 when it was trained): say --weights raw", file);
    arena.assign(static_cast<std::size_t>(layout.count), 0.0f);
    load_checkpoint(file, layout, {{o.weights == "ema" ? "ema" : "parameters", arena.data()}});
  });
  const auto evaluated =
      evaluation->run(comm, arena.data(), [&](double) { return !signals.stop_requested(); });
  if (comm.rank() != 0 || !evaluated) return evaluated.has_value();
  const EvaluationResult& result = *evaluated;
  fmt::print("step {} ({}, {} weights): {}\n", facts.position.step, file, o.weights,
             fmt::join(score_parts(result.score), ", "));
  if (!o.no_confusion) fmt::print("{}", confusion_table(result, data.class_names));
  std::fflush(stdout);
  return true;
}

int run(World& world, const EvaluateOptions& o, const Signals& signals) {
  const Comm comm = world.comm();
  const Watchdog watchdog(world, 0);  // deaths; an evaluation takes as long as it takes
  const Placement placement = place(comm, o.threads);
  std::unique_ptr<Device> device;
  agree(comm, [&] { device = make_cpu_device(placement.threads); });
  std::string last;
  std::set<std::string> said;
  for (;;) {
    std::string file;
    agree(comm, [&] {
      if (comm.rank() == 0) file = newest_file(o, said);
    });
    file = comm.broadcast(file);
    const bool whole =
        file.empty() || file == last || evaluate_file(comm, *device, o, file, signals);
    last = file;
    if (!o.follow && !whole) throw AgreedError("stopped on request before the evaluation was done");
    if (!o.follow) return kExitSuccess;
    for (double slept = 0; slept < o.interval; slept += 0.1) {
      if (comm.max(signals.stop_requested()) > 0) return kExitSuccess;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  const Signals signals;
  const auto answer = [&] {
    EvaluateOptions options;
    std::string text;
    parse(argc, argv, options, text);
    return text;
  };
  if (answered_without_ranks(answer)) return kExitSuccess;
  return run_main(argc, argv, "evaluate", [&](World& world) {
    EvaluateOptions options;
    std::string text;
    bool go_on = false;
    agree(world.comm(), [&] { go_on = parse(argc, argv, options, text); });
    expect_same(world.comm(), "options",
                fmt::format("{}", fmt::join(std::vector<std::string>(argv + 1, argv + argc), " ")));
    if (go_on) return run(world, options, signals);
    if (world.comm().rank() == 0) std::fputs(text.c_str(), stdout);
    return static_cast<int>(kExitSuccess);
  });
}
