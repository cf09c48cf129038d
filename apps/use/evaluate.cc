// Evaluates checkpoints on the test set: once, or every new one in a folder.

#include <chrono>
#include <filesystem>
#include <optional>
#include <system_error>
#include <thread>

#include "apps/evaluate/evaluation.h"
#include "apps/evaluate/predictions.h"
#include "apps/options/run_options.h"
#include "apps/record/checkpoint_use.h"
#include "apps/run/run_setup.h"
#include "apps/step/placement.h"
#include "apps/tell/metrics.h"
#include "apps/use/run_use.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/flight_recorder.h"
#include "net/checkpoint.h"
#include "src/base/signals.h"
#include "src/base/text.h"
#include "src/data/data_options.h"
#include "src/data/dataset.h"
#include "src/device/cpu/arithmetic.h"
#include "src/device/cpu/convolution.h"
#include "src/device/cpu/instruction_set.h"
#include "src/files/file.h"
#include "src/files/hdf5.h"
#include "src/report/report.h"

namespace lockstep {
namespace {

struct EvaluateOptions : CheckpointUse {
  std::string convolution = "auto", isa = "auto", arithmetic = "portable";
  std::string logits, predictions;
  DataPlace place;
  ImageOptions images;  ///< only how their files are checked
  bool follow = false, no_confusion = false, test_views = false;
  double interval = 60;
};

void declare(OptionRows& rows, EvaluateOptions& o) {
  o.CheckpointUse::declare(rows);
  declare_folders(rows, o.place.folders, "Folder of the test set [that of the run]")
      .example("photos");
  declare_labels(rows, o.place.labels).example("labels.csv --data photos");
  declare_image_files(rows, o.images);
  rows.flag("--follow", o.follow, "Evaluation of every new checkpoint of the folder, without end")
      .excludes("--which", "checkpoint");
  rows.number("--interval", o.interval, Bounds::above_zero(kLongestTime),
              "Seconds between two looks into the folder, with --follow")
      .example("10 --follow");
  rows.flag("--no-confusion", o.no_confusion,
            "Output without the confusion matrix and the table of classes");
  declare_test_views(rows, o.test_views);
  rows.text("--logits", o.logits, "FILE",
            "HDF5 file for the first test samples, at most 100, labels and logits [none]")
      .excludes("--test-views")
      .example("logits.h5");
  rows.text(
          "--predictions", o.predictions, "FILE",
          "CSV file for the predicted class of each sample and all probabilities [none]\n"
          "A row has the image file, or the number of the sample if it is no file, the true class, "
          "the predicted class, and the probability of each class.")
      .example("predictions.csv");
  rows.entry("--conv", o.convolution, "Convolution kernels of CPU cores (see train_cifar --list)",
             convolutions());
  rows.entry("--arithmetic", o.arithmetic,
             "Arithmetic of CPU cores in fp32 (see train_cifar --list)", arithmetics());
  rows.entry("--isa", o.isa, "Widest instruction set of CPU cores (see train_cifar --list)",
             instruction_sets());
}

/// Throws the usage Error for files that cannot be.
void check(const EvaluateOptions& o) {
  std::error_code unknown;
  // The files may not exist yet, so their names are compared and not their inodes.
  const auto place = [&](const std::string& file) {
    return std::filesystem::weakly_canonical(file, unknown);
  };
  if (!o.logits.empty() && !o.predictions.empty() && place(o.logits) == place(o.predictions))
    fail_usage("--logits and --predictions name one file, {}. Use two names.", o.logits);
  for (const std::string& file : {o.logits, o.predictions})  // it may be a checkpoint or data
    if (std::filesystem::is_regular_file(file, unknown))
      fail_usage("{} exists. Use another name.", file);
  if (o.follow && checkpoint_folder(o.run).empty())
    fail_usage("--follow needs a folder, and {} is none. Pass a folder of checkpoints.", o.run);
}

std::string percent(std::int64_t part, std::int64_t all) {
  if (all == 0) return "-";
  return fmt::format("{:.1f} %", 100 * static_cast<double>(part) / static_cast<double>(all));
}

/// At most 80 columns for ten classes.
std::string confusion_table(const EvaluationResult& result, const std::vector<std::string>& names) {
  std::string text = fmt::format("{:>20}\n{:<10}", "predicted", "true");
  for (const std::string& name : names) text += fmt::format(" {:>5.5}", one_line(name));
  text += "   recall";
  const std::vector<ClassCounts> counts = class_counts(result);
  for (std::size_t truth = 0; truth < names.size(); ++truth) {
    text += fmt::format("\n{:>10.10}", one_line(names[truth]));
    for (std::size_t predicted = 0; predicted < names.size(); ++predicted)
      text += fmt::format(" {:>5}", result.confusion[truth * names.size() + predicted]);
    text += fmt::format(" {:>8}", percent(counts[truth].right, counts[truth].samples));
  }
  return text;
}

/// Precision: the share of the predictions of the class that are right. Recall: the share of the
/// samples of the class that are predicted as it. F1: their harmonic mean. "-": there are no such
/// samples.
std::string class_table(const EvaluationResult& result, const std::vector<std::string>& names) {
  std::string text = fmt::format("{:<24} {:>9} {:>9} {:>9} {:>9}", "class", "precision", "recall",
                                 "f1", "samples");
  const std::vector<ClassCounts> counts = class_counts(result);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto& [samples, predicted, right] = counts[i];
    text += fmt::format("\n{:<24.24} {:>9} {:>9} {:>9} {:>9}", one_line(names[i]),
                        percent(right, predicted), percent(right, samples),
                        percent(2 * right, samples + predicted), samples);
  }
  return text + fmt::format("\n{:<24} {:>9} {:>7.1f} % {:>7.1f} % {:>9}", "mean of classes", "",
                            100 * find(measures(), "balanced-accuracy").value(result),
                            100 * find(measures(), "f1").value(result), result.score.samples);
}

/// For other programs that load the checkpoint and compare their logits (scripts/load_*.py).
void write_answers(const std::string& file, const EvaluatedCheckpoint& subject,
                   const Answers& answers) {
  const auto count = std::ssize(answers.labels);
  Hdf5Writer writer(file);
  writer.array("samples", answers.sample_shape.with_batch(count), answers.samples);
  writer.array("labels", {count}, answers.labels);
  writer.array("logits", {count, std::ssize(answers.logits) / count}, answers.logits);
  writer.attribute("model", subject.model);
  writer.attribute("checkpoint", subject.file);
  writer.commit();
}

void print_result(const EvaluatedCheckpoint& subject, const EvaluationResult& result,
                  const std::vector<std::string>& classes, const EvaluateOptions& o) {
  std::string text =
      fmt::format("step {} ({}, {}): {}", subject.step, subject.file, subject.weights_text(),
                  fmt::join(texts_of(metrics_of(result, 0)), ", "));
  if (!o.no_confusion) {
    text += fmt::format("\n{}\n{}", confusion_table(result, classes), class_table(result, classes));
  }
  Console().line(text);
}

/// Collective. Evaluates one checkpoint, which rank 0 has open. False: a rank was asked to stop.
bool evaluate(World& world, Device& device, const EvaluateOptions& o, const Checkpoint* checkpoint,
              const Signals& signals) {
  const Comm comm = world.comm();
  RankRecorder& recorder = world.flight_recorder().mine();
  recorder.phase("reading the checkpoint", kSlowFiles);
  EvaluatedCheckpoint subject = describe(comm, checkpoint, o.weights);
  // Both count: files that the run has left out are left out here too.
  subject.images.check += "," + o.images.check;
  OpenedData data;
  std::vector<std::string> notes;
  std::unique_ptr<Evaluation> evaluation;
  std::optional<PredictionFile> predictions;
  std::string folder;
  Type type = Type::f32;
  ModelEntry entry;
  agree(comm, [&] {
    HostRanks host = host_ranks(comm);
    host.progress = [&recorder] { recorder.progress(); };
    const DataPlace place = data_of_run(subject, o.place);
    folder = place.text();
    data = open_test_set(subject, place, host, notes);
    entry = subject.entry();
    type = o.type(subject);
    require_precision(device, type);
  });
  agree(comm, [&] {
    evaluation = std::make_unique<Evaluation>(device, entry, *data.test, type, o.test_views);
    evaluation->after_each([&recorder] { recorder.progress(); });
    if (o.predictions.empty()) return;
    predictions.emplace(checkpoint ? o.predictions : "", *data.test, data.class_names);
    evaluation->write_predictions(*predictions);
  });
  if (checkpoint)
    for (const std::string& text : notes) o.complain("note: " + text);
  float* const weights = evaluation->load(comm, checkpoint, subject.section());
  recorder.phase("evaluation");
  const auto evaluated = evaluation->run(comm, weights, [&](double) {
    recorder.progress();
    return !signals.stop_requested();
  });
  for (const std::string& fact : newly_skipped(comm, *data.test))
    o.complain("note: " + fact + ". It is left out.");
  if (evaluated) {
    agree(comm, [&] {
      if (comm.rank() != 0) return;
      if (predictions) predictions->commit();
      if (!o.logits.empty()) write_answers(o.logits, subject, evaluation->first_batch());
    });
  }
  if (comm.rank() != 0 || !evaluated) return evaluated.has_value();
  if (o.place.folders.empty() && !folder.empty())
    Console().line(
        fmt::format("{:<12} {}{}", "data", folder, notes.empty() ? ", as in training" : ""));
  print_result(subject, *evaluated, data.class_names, o);
  return true;
}

int run(World& world, const EvaluateOptions& o, const Signals& signals) {
  const Comm comm = world.comm();
  agree(comm, [&] { check(o); });
  RankRecorder& recorder = world.flight_recorder().mine();
  Placement placement = place(comm, o.threads);
  const std::unique_ptr<Device> device = make_device(
      comm, o.device, {.convolution = o.convolution, .isa = o.isa, .arithmetic = o.arithmetic},
      placement);
  if (comm.rank() == 0)
    for (const std::string& text : placement.notes) o.complain("note: " + text);
  const auto warn = [&](const std::string& text) { o.complain(text); };
  CheckpointFolder folder(checkpoint_folder(o.run), warn);
  for (;;) {
    ChosenCheckpoint chosen;  // rank 0's
    recorder.phase("looking for checkpoints", kSlowFiles);
    agree(comm, [&] {
      if (comm.rank() != 0) return;
      chosen = o.follow ? ChosenCheckpoint{folder.next()} : open_checkpoint(o, warn);
      if (!chosen.checkpoint) return;
      for (const std::string& file : {o.logits, o.predictions})
        if (!file.empty()) require_replaceable(file);
      chosen.print();
    });
    // All ranks must know whether rank 0 has found a checkpoint, because evaluate() is collective.
    const bool whole = comm.max(chosen.checkpoint != nullptr) == 0 ||
                       evaluate(world, *device, o, chosen.checkpoint.get(), signals);
    if (!o.follow && !whole) throw AgreedError("stopped on request before the evaluation was done");
    if (!o.follow) return kExitSuccess;
    // All ranks leave the wait in the same round, whichever of them received the signal.
    for (double slept = 0; slept < o.interval; slept += 0.1) {
      if (comm.max(signals.stop_requested()) > 0) return kExitSuccess;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      recorder.progress();
    }
  }
}

}  // namespace

int evaluate_main(int argc, char** argv, const UseProgram& program) {
  const Signals signals;
  const auto evaluate = [&](World& world, const EvaluateOptions& o) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    expect_same(world.comm(), "options", fmt::format("{}", fmt::join(words, " ")));
    return run(world, o, signals);
  };
  return run_use<EvaluateOptions>(
      argc, argv, program,
      {program.name, "Evaluates checkpoints on the test set of the data that they were trained on",
       program.name + " [OPTIONS] RUN"},
      declare, evaluate, Start::any);
}

}  // namespace lockstep
