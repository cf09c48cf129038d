#include "apps/run/trainer.h"

#include <memory>

#include "apps/record/data_facts.h"
#include "apps/record/replay_steps.h"
#include "apps/record/run_files.h"
#include "apps/record/run_place.h"
#include "apps/record/weights_hash.h"
#include "apps/run/best_checkpoint.h"
#include "apps/run/find_lr.h"
#include "apps/run/training_loop.h"
#include "apps/step/error_feedback.h"
#include "apps/step/trace.h"
#include "apps/tell/model_table.h"
#include "apps/tell/summary.h"
#include "collectives/comm/flight_recorder.h"
#include "collectives/watch/end_all_ranks.h"
#include "collectives/watch/watchdog.h"
#include "src/base/machine.h"
#include "src/base/run_end.h"
#include "src/base/signals.h"
#include "src/base/table.h"
#include "src/data/validation.h"
#include "src/report/report.h"

namespace lockstep {
namespace {

/// Collective, between the phases of the start-up. Throws AgreedError if a rank was asked to stop.
using LookForStop = std::function<void()>;

/// Collective. Claims the folder of the run.
void claim(RunPlace& place, const World& world, const Options& options,
           const LookForStop& look_for_stop) {
  RankRecorder& recorder = world.flight_recorder().mine();
  recorder.phase("waiting for the folder of another run", kSlowFiles);
  place.claim(look_for_stop);
  recorder.phase("looking for checkpoints", kSlowFiles);
  agree_on_rank_0(world.comm(), [&] {
    const std::string& trace = options.reports.trace;
    if (!trace.empty()) require_trace_file(trace);  // perhaps in the folder of the run
  });
}

/// --summary, on rank 0. Without the files of the data set it shows the model's own samples.
void print_model(const Options& options) {
  constexpr int kAssumedClasses = 10;
  const DatasetEntry& set = find(datasets(), options.data.dataset);
  const ModelEntry& entry = options.entry;
  if (!set.files.empty() && options.data.place.folders.empty()) {
    const std::string table = model_table(entry, entry.sample, kAssumedClasses);
    Console().line(fmt::format("{}\n{} classes are assumed. --data DIR counts those of the data.",
                               table, kAssumedClasses));
    return;
  }
  const OpenedData data = open_data(set, options.data.source(options.schedule.seed));
  require_fit(entry, data.train->sample_shape());
  Console().line(model_table(entry, data.train->sample_shape(), data.train->classes()));
}

/// Collective. Fits data and plan to the checkpoint. `notes` become the plan's first.
void plan_run_of(RunSetup& setup, const Resumption& resumption, std::vector<std::string> notes) {
  agree(setup.comm, [&] {
    require_same_data(resumption, setup.data);
    follow_checkpoint(resumption, setup.options, setup.data, notes);
  });
  notes.insert(notes.end(), setup.data.notes.begin(), setup.data.notes.end());
  setup.plan_steps(resumption.metadata.position);
  setup.plan.notes.insert(setup.plan.notes.begin(), notes.begin(), notes.end());
}

/// Why there is nothing to train; empty: there is.
/// A state in memory has no checkpoint yet, so such a run is not complete: it saves one first.
std::string completion(const RunSetup& setup, const Resumption& resumption,
                       const RunProgress& progress) {
  const std::string& file = resumption.file;
  const RunPlan& plan = setup.plan;
  const ReportOptions& reports = setup.options.reports;
  const bool tests = tests_at_end(setup) && !progress.tested.known();
  if (file.empty() || resumption.in_memory) return "";
  const bool beyond = plan.start.step > plan.steps;  // --steps is lower than before
  if (!beyond && (progress.evaluation_due || tests)) return "";
  if (plan.start.step >= plan.steps) {
    return fmt::format(
        "complete already: {} is at step {} of {}. Pass more --steps or --epochs to train on, or "
        "--new for a new run.",
        file, plan.start.step, plan.steps);
  }
  if (!progress.over(reports)) return "";
  return fmt::format(
      "complete already: {} has ended by its {}. Pass a higher one to train on, or --new for "
      "a new run.",
      file, progress.reached(reports) ? "--target" : "--patience");
}

/// Collective. The files of a run that was complete before this start.
void complete_again(const RunSetup& setup, TrainingStep& step, const RunProgress& progress,
                    Reporter& reporter) {
  const float* const weights = step.weights();
  agree_on_rank_0(setup.comm, [&] {
    reporter.complete(setup.plan.start.step, progress, weights_sha256(step.layout(), weights));
  });
}

/// Collective. A failure is only a warning, because the results are saved.
void write_trace(Trace& trace, const RunSetup& setup, Reporter& reporter) {
  setup.recorder.phase("writing the trace", kSlowFiles);
  const std::string& file = setup.options.reports.trace;
  const std::string problem = trace.write(file);
  if (!problem.empty()) return reporter.warning("no --trace was written: " + problem);
  reporter.line(fmt::format("{:<12} {}: open it at ui.perfetto.dev", "trace", file));
}

/// Collective. Writes the timeline also if the loop ends with an error of all ranks.
/// A rank that fails alone writes nothing collective here, because the others do not come.
/// OnFailure in run_to_the_end() then writes the reason.
void run_traced(const LoopParts& parts, const RunProgress& progress, Trace* trace) {
  const Comm& comm = parts.setup.comm;
  try {
    run_training_loop(parts, progress);
  } catch (const AgreedError& error) {
    if (error.exit_code() != kExitRequeue && comm.rank() == 0) parts.reporter.failed(error.what());
    if (trace) write_trace(*trace, parts.setup, parts.reporter);
    throw;
  } catch (...) {
    if (comm.size() == 1) parts.reporter.failed(current_error().what());
    throw;
  }
  if (trace) write_trace(*trace, parts.setup, parts.reporter);
}

/// Collective; for rank 0. Bytes by part. `program`: of the program before all others.
std::vector<std::pair<std::string, std::size_t>> memory_parts(
    const RunSetup& setup, const TrainingStep& step, const Evaluation& evaluation,
    const Loader& loader, bool saves, const Snapshot* snapshot, std::size_t program) {
  auto parts = step.memory();
  parts.emplace_back("evaluation", evaluation.bytes());
  parts.emplace_back("loader", loader.bytes());
  parts.emplace_back("data", setup.data.bytes());
  if (saves) {  // the residuals of all ranks twice: gathered, by a buffer, and in the file's image
    const std::size_t residuals = residual_bytes(setup.comm, step.layout(), step.own_sections());
    const std::size_t buffer = residuals > 0 ? step.layout().count * sizeof(float) : 0;
    parts.emplace_back("saving", step.saved_bytes() + 2 * residuals + buffer);
  }
  parts.emplace_back("copies of the state", snapshot ? snapshot->bytes() : 0);
  parts.emplace_back("program and libraries", program);
  return parts;
}

/// Collective. Trains, or finds a learning rate. Returns the exit code.
int run_to_the_end(const LoopParts& parts, const RunProgress& progress, Trace* trace) {
  const Options& options = parts.setup.options;
  const OnFailure on_failure([&](const std::string& line) { parts.reporter.failed(line); });
  return parts.setup.world.abort_all_on_error([&] {
    if (options.find_lr.steps > 0)
      find_learning_rate(parts);
    else
      run_traced(parts, progress, trace);
    return kExitSuccess;
  });
}

/// Collective. Lets `evaluate` know the samples of the user's own data that the run trains on.
void keep_samples(const RunSetup& setup, const std::string& folder) {
  agree_on_rank_0(setup.comm, [&] {
    const bool own = find(datasets(), setup.options.data.dataset).own && !folder.empty();
    if (own) keep_fingerprints(folder, setup.data);
  });
}

/// Returns the exit code of `run`. Removes the states in `memory` (null: none) at an end after
/// which they are of no use.
template <class Run>
int with_states(StateMemory* memory, const Run& run) {
  const auto forget = [&](int code) {
    if (memory && !end_of(code).keeps_states) memory->remove();
    return code;
  };
  try {
    // Only an end that all ranks agree on removes states. After any other one the next start may
    // need them.
    return forget(run());
  } catch (const AgreedError& error) {
    forget(error.exit_code());
    throw;
  }
}

/// Collective. The state of a new run, or that of the checkpoint. `changes` gets what differs from
/// the run of the checkpoint.
RunProgress begin_or_restore(RunSetup& setup, const Resumption& resumption, const RunFacts& facts,
                             Saver& saver, std::vector<Change>& changes) {
  std::vector<std::string>& notes = setup.plan.notes;
  RunProgress progress;
  if (resumption.file.empty()) {
    saver.begin(resumption, notes);
  } else {
    changes = differences(resumption.before, facts, setup.options);
    for (const Change& change : changes) notes.push_back(change.note());
    progress = saver.restore(resumption, notes);
  }
  saver.verify(setup.plan.start.step);
  return progress;
}

/// Collective, after the device is chosen. Makes the network, trains it, and returns the exit code.
/// The order of its objects is that of their lifetimes: each refers to those before it. States are
/// kept on all hosts or on none, because those of some hosts could not be resumed. Some facts are
/// measured on all ranks, so the run is compared with that of the checkpoint only after them.
int train_network(RunSetup& setup, const Resumption& resumption, const RunPlace& place,
                  StateMemory* memory, const std::function<bool()>& stop_requested,
                  const LookForStop& look_for_stop, std::size_t base_memory) {
  const Options& options = setup.options;
  const bool traced = !options.reports.trace.empty() && !options.check;
  const auto trace = traced ? std::make_unique<Trace>(setup.comm) : nullptr;
  std::unique_ptr<Loader> loader;  // outlives the step, which reads from it
  TrainingStep step = setup.make_step(trace ? &trace->timeline() : nullptr);
  Evaluation evaluation(*setup.device, setup.entry, setup.data.evaluated(), options.model.precision,
                        options.reports.test_views);
  evaluation.after_each([&] { setup.recorder.progress(); });
  constexpr std::size_t kMistakes = 18;  // on report.html
  if (!place.folder().empty()) evaluation.find_mistakes(kMistakes);
  const bool curves = !place.folder().empty() && setup.data.train->classes() <= kMostInMatrix;
  if (curves || options.reports.measure().needs == Measure::probabilities)
    evaluation.count_probabilities();
  loader = setup.make_loader(step, setup.plan.start.step);
  StateMemory* kept = memory && memory->everywhere() ? memory : nullptr;
  const auto snapshot = make_snapshot(setup, step, place.folder(), kept);
  const RunParts run{setup.comm,
                     options,
                     resumption,
                     place.folder(),
                     setup.plan,
                     setup.placement,
                     *setup.device,
                     setup.data,
                     step,
                     memory_parts(setup, step, evaluation, *loader, !place.folder().empty(),
                                  snapshot.get(), base_memory),
                     kept != nullptr};
  const RunFacts facts = facts_of(run);
  Reporter reporter(run, facts, place, [&] {
    setup.recorder.progress();
    return !stop_requested();
  });
  Saver saver(setup, facts, step, reporter, place, snapshot.get(), kept);
  look_for_stop();
  std::vector<Change> changes;
  const RunProgress progress = begin_or_restore(setup, resumption, facts, saver, changes);
  look_for_stop();
  print_summary(run, facts, *loader, reporter);
  const std::string complete = completion(setup, resumption, progress);
  // The options of a replay are those that the run had then.
  if (replay_steps(place.folder()).empty())
    agree(setup.comm, [&] { require_same_run(resumption, changes, !complete.empty()); });
  if (options.check || !complete.empty()) {
    reporter.result(options.check ? "all is well: --check trains nothing" : complete);
    // Beyond the last step the run keeps its status: nothing was evaluated there.
    if (!options.check && setup.plan.start.step <= setup.plan.steps)
      complete_again(setup, step, progress, reporter);
    if (memory) memory->remove();
    return kExitSuccess;
  }
  keep_samples(setup, place.folder());
  return with_states(memory, [&] {
    return run_to_the_end({setup, place, step, loader, evaluation, reporter, saver, stop_requested},
                          progress, trace.get());
  });
}

}  // namespace

int train(World& world, const Options& options, const std::function<bool()>& stop_requested,
          Device* device) {
  const Comm comm = world.comm();
  world.watchdog().set_timeout(options.ranks.timeout);
  // Measured before anything of the run exists, so it is the memory of the program and its
  // libraries.
  const std::size_t base_memory = own_memory_bytes();
  constexpr const char* kStopped =
      "stopped on request before the first step of this start. The same command continues.";
  const LookForStop look_for_stop = [&] {
    if (comm.max(stop_requested()) > 0) throw AgreedError(kStopped, kExitRequeue);
  };
  const auto end_if_stopped = [&] {
    if (stop_requested()) throw Error(kStopped, kExitRequeue);
  };
  look_for_stop();
  if (options.summary) {
    agree_on_rank_0(comm, [&] { print_model(options); });
    return kExitSuccess;
  }
  // The folder is claimed before anything in it is read. Otherwise another process could add a
  // checkpoint between the choice and the first step.
  RunPlace place(comm, options);
  claim(place, world, options, look_for_stop);
  const bool keeps =
      !place.folder().empty() && !options.check && replay_steps(place.folder()).empty();
  const Resumption resumption = find_resumption(comm, options, place.checkpoints(), keeps);
  std::vector<std::string> notes = place.notes();
  notes.insert(notes.end(), resumption.notes.begin(), resumption.notes.end());
  std::string problem;
  const auto memory =
      keeps ? open_state_memory(comm, resumption.run, place.folder(), problem) : nullptr;
  if (!problem.empty()) notes.push_back("no state is kept in memory, because " + problem);
  RunShape shape;
  agree(comm, [&] {
    shape = resumed_shape(options, resumption, comm.size(), notes);
    place.name_run(resumption.run);
  });
  // The data come after the checkpoint, which may set the seed that they are opened with.
  RunSetup setup(world, options, shape, end_if_stopped);
  look_for_stop();
  plan_run_of(setup, resumption, notes);
  setup.choose_device(device);
  look_for_stop();
  return train_network(setup, resumption, place, memory.get(), stop_requested, look_for_stop,
                       base_memory);
}

}  // namespace lockstep
