#include "apps/run/trainer.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "apps/run/augmentation.h"
#include "apps/run/checkpoint_folder.h"
#include "apps/run/circumstances.h"
#include "apps/run/epoch_record.h"
#include "apps/run/model_table.h"
#include "apps/run/reporter.h"
#include "apps/run/resumption.h"
#include "apps/run/run_folders.h"
#include "apps/run/summary.h"
#include "apps/run/trained_data.h"
#include "apps/step/error_feedback.h"
#include "apps/step/placement.h"
#include "apps/step/replica_check.h"
#include "apps/step/restore.h"
#include "apps/step/trace.h"
#include "apps/step/training_device.h"
#include "apps/step/training_step.h"
#include "apps/step/tuning.h"
#include "collectives/comm/flight_recorder.h"
#include "collectives/watch/watchdog.h"
#include "net/checkpoint.h"
#include "net/checkpoint_pruner.h"
#include "src/base/clock.h"
#include "src/base/machine.h"
#include "src/base/process.h"
#include "src/base/table.h"
#include "src/data/dataset.h"
#include "src/files/file.h"
#include "src/report/report.h"

namespace lockstep {
namespace {

/// Seconds that a phase may take which waits for a file system: slow is no hang.
constexpr double kSlowFiles = 600;

/// What a checkpoint says of its "evaluation" where that is still to be done.
constexpr const char* kDue = "due";
/// The text of a checkpoint that says where a dynamic scale of the loss stands.
constexpr const char* kLossScale = "loss_scale";
/// The text of SavedResiduals.
constexpr const char* kResiduals = "kept_back";

/// "352.1 s after mpirun began": the launcher that this rank is a child of, or the program itself.
std::string time_of_run() {
  constexpr std::array<std::string_view, 7> kLaunchers{"mpirun", "mpiexec", "orterun",   "prterun",
                                                       "orted",  "prted",   "slurmstepd"};
  const std::string parent = program_of(getppid());
  const bool launched = std::find(kLaunchers.begin(), kLaunchers.end(), parent) != kLaunchers.end();
  return fmt::format("{:.1f} s after {} began", age_of(launched ? getppid() : getpid()),
                     launched ? parent : "the program");
}

class Trainer {
 public:
  Trainer(World& world, const Options& options, const DatasetPair& data, Device& device,
          const RunPlan& plan, const RunFolders* folders,
          const std::function<bool()>& stop_requested)
      : world_(world),
        comm_(world.comm()),
        options_(options),
        plan_(plan),
        folders_(folders),
        stop_requested_(stop_requested),
        entry_(find(models(), options.model.name)),
        trace_(options.reports.trace.empty() || options.check ? nullptr
                                                              : std::make_unique<Trace>(comm_)),
        step_(make_step_parts(world, device, entry_, *data.train, options, plan), device,
              world.flight_recorder().mine(), options, plan,
              trace_ ? &trace_->timeline() : nullptr),
        evaluation_(device, entry_, *data.test, options.model.precision,
                    options.reports.test_views),
        reporter_(comm_, options, plan, folders,
                  [this] {
                    world_.flight_recorder().mine().progress();
                    return !stop_requested_();
                  }),
        texts_(circumstances(comm_, options, plan, device, step_)) {
    evaluation_.after_each([&record = world.flight_recorder().mine()] { record.progress(); });
    texts_.merge(
        Circumstances{{"model", std::string(entry_.name)},
                      {"precision", name_of(options.model.precision)},
                      {"dataset", options.data.dataset},
                      {"data", data.identity},
                      {"class_names", fmt::format("{}", fmt::join(data.class_names, "\n"))},
                      {"global_batch", std::to_string(plan.global_batch)},
                      {"shards", std::to_string(plan.shards)},
                      {"run", plan.run},
                      {"parent", plan.parent},
                      {"began", plan.began}});
    if (const std::string text = normalisation_of(*data.train); !text.empty())
      texts_[kNormalisation] = text;
  }

  /// Parameters, slots and average as the checkpoint has them, on all ranks.
  void restore(const Resumption& resumption) {
    std::unique_ptr<Checkpoint> checkpoint;
    agree(comm_, [&] {
      if (comm_.rank() == 0) checkpoint = std::make_unique<Checkpoint>(*resumption.file);
    });
    load_on_all_ranks(comm_, checkpoint.get(), step_.layout(), step_.sections());
    LossScale scale = step_.loss_scale();
    SavedResiduals residuals;
    const auto& texts = resumption.metadata.texts;
    agree(comm_, [&] {
      try {
        if (const auto at = texts.find(kReached); at != texts.end())
          reached_ = std::stod(at->second);
        // A run that was not scaled dynamically begins to be.
        if (const auto at = texts.find(kLossScale); at != texts.end())
          scale = LossScale::from(at->second);
        if (const auto at = texts.find(kResiduals); at != texts.end())
          residuals = SavedResiduals::from(at->second);
        if (const auto at = texts.find(kBest); at != texts.end()) reporter_.go_on_from(at->second);
      } catch (const std::exception& error) {
        fail("{} is damaged: {}; use another file", resumption.file->string(), error.what());
      }
    });
    step_.restored(scale);
    wire_note_ = restore_residuals(comm_, checkpoint.get(), residuals, step_.layout(),
                                   step_.loss_scale().scale, step_.own_sections());
    last_file_ = *resumption.file;
    world_.flight_recorder().saved();
    const auto evaluation = resumption.metadata.texts.find("evaluation");
    evaluation_due_ = (options_.reports.eval_every > 0 || options_.reports.epoch_lines) &&
                      evaluation != resumption.metadata.texts.end() && evaluation->second == kDue;
  }

  /// The weights of `file`, on all ranks, for a run that begins with them.
  void begin_with(const std::string& file) {
    std::unique_ptr<Checkpoint> checkpoint;
    agree(comm_, [&] {
      if (comm_.rank() != 0) return;
      checkpoint = std::make_unique<Checkpoint>(file);
      checkpoint->verify();
    });
    const std::vector<Section> sections = step_.sections();
    load_on_all_ranks(comm_, checkpoint.get(), step_.layout(), {sections.front()});
    begin_as(sections);
  }

  /// The weights that follow from the data, in a run that begins.
  void prepare(const Dataset& train) {
    if (entry_.prepare == nullptr) return;
    const std::vector<Section> sections = step_.sections();
    entry_.prepare(train, step_.layout(), sections.front().arena);
    begin_as(sections);
  }

  /// An evaluation has met --target: the run is complete.
  bool reached() const {
    return options_.reports.target > 0 && reached_ >= options_.reports.target;
  }

  /// The run was stopped before the evaluation of its last step: that is the first thing to do.
  bool evaluation_due() const { return evaluation_due_; }

  const Circumstances& texts() const { return texts_; }
  /// What has become of that which --wire kept back; on rank 0, else empty.
  const std::string& wire_note() const { return wire_note_; }
  TrainingStep& step() { return step_; }
  Evaluation& evaluation() { return evaluation_; }
  Reporter& reporter() { return reporter_; }

  /// Collective. However it ends for all ranks, the timeline is written.
  int run(Loader& loader) {
    try {
      const int code = run_steps(loader);
      write_trace();
      return code;
    } catch (const AgreedError&) {
      write_trace();
      throw;
    }
  }

 private:
  /// The weights that the host has written to the first of `sections` are the run's.
  void begin_as(const std::vector<Section>& sections) {
    if (step_.state().average)
      std::copy_n(sections.front().arena, step_.layout().count, sections.back().arena);
    step_.restored(step_.loss_scale());
  }

  int run_steps(Loader& loader) {
    agree(comm_, [&] { reporter_.begin(evaluation_due_); });
    last_save_ = last_report_time_ = now_seconds();
    skipped_before_ = step_.loss_scale().skipped;
    epoch_.begin();
    std::int64_t done = plan_.start.step;
    if (evaluation_due_) {
      evaluate(done);
      save(done);
      if (evaluation_due_) return stop(done);
      last_report_time_ = now_seconds();
    }
    for (last_report_step_ = taken_ = done; done < plan_.steps && !reached();) {
      step_.give(loader, done, static_cast<float>(rate_at(done)), votes(), reports(done + 1));
      ++done;
      Votes asked = take(/*all=*/looks_at_weights(done));
      // Weights are those of the last step that was given.
      if (asked.stop || asked.save) asked = asked | take(/*all=*/true);
      if (taken_ == done) after_step(done, asked);
      if ((asked.stop && done < plan_.steps && !reached()) || evaluation_due_) return stop(done);
    }
    if (options_.reports.target > 0 && !reached()) {
      reporter_.line(fmt::format("{:<12} {:g} % of the test set was not reached", "target",
                                 options_.reports.target));
    }
    reporter_.summary(done, trained_seconds(), skipped());
    return kExitSuccess;
  }

  static bool due(std::int64_t done, std::int64_t every) { return every > 0 && done % every == 0; }

  Votes votes() const {
    const double seconds = options_.checkpoints.every.seconds;
    return {stop_requested_(),
            comm_.rank() == 0 && seconds > 0 && now_seconds() - last_save_ >= seconds};
  }

  double rate_at(std::int64_t step) const {
    return learning_rate(plan_.rate, plan_.epoch_at(step), plan_.epoch_at(plan_.steps));
  }

  bool reports(std::int64_t done) const {
    return done == plan_.start.step + 1 || due(done, options_.reports.log_every) ||
           done == plan_.steps;
  }

  /// Whether it is known beforehand that somebody looks at the weights after this step.
  bool looks_at_weights(std::int64_t done) const {
    return due(done, options_.reports.summary_every) || due(done, options_.reports.verify_every) ||
           evaluates(done) || due(done, options_.checkpoints.every.steps) || done == plan_.steps;
  }

  /// Whether an evaluation follows this step.
  bool evaluates(std::int64_t done) const {
    return due(done, options_.reports.eval_every) ||
           (done == plan_.steps && options_.reports.eval_every > 0) ||
           (options_.reports.epoch_lines && epoch_that_ends(plan_, done) > 0);
  }

  /// Takes the totals that step_ has, or of all steps given, and returns what ranks voted for.
  Votes take(bool all) {
    Votes asked;
    while (const auto totals = step_.take(all)) {
      ++taken_;
      if (!std::isfinite(totals->cross_entropy)) fail_diverged(taken_, totals->cross_entropy);
      epoch_.add(*totals);
      if (reports(taken_)) report_step(taken_, *totals);
      reporter_.progress(taken_, totals->cross_entropy);
      asked = asked | Votes{totals->stop, totals->save};
    }
    return asked;
  }

  void after_step(std::int64_t done, Votes asked) {
    const bool end = done == plan_.steps;
    const double start = now_seconds();
    if (due(done, options_.reports.summary_every)) {
      phase("writing histograms", 0);
      const TimedSpan span(lane(), "histograms");
      reporter_.histograms(done, step_.layout(), step_.sections().front().arena, step_.gradients());
    }
    if (due(done, options_.reports.verify_every)) verify(done);
    evaluation_due_ = evaluates(done);
    if (end) require_finite_loss(done);
    if (due(done, options_.checkpoints.every.steps) || asked.save || asked.stop || end) save(done);
    if (end && saved_step_ != done) require_finite(done);
    if (evaluation_due_ && !asked.stop) {  // else it is left to the run that goes on
      evaluate(done);
      if (evaluation_due_ || saved_step_ == done || reached()) save(done);
    }
    aside_ += now_seconds() - start;
  }

  void report_step(std::int64_t done, const StepTotals& totals) {
    const StepTimes times = step_.times();
    const double seconds = now_seconds() - last_report_time_ - aside_;
    const auto steps = static_cast<double>(done - last_report_step_);
    StepReport r;
    r.step = done;
    r.epoch = plan_.epoch_at(done);
    r.cross_entropy = totals.cross_entropy;
    r.penalty = totals.penalty;
    r.batch_top1 = totals.top1_share;
    r.images_per_s = steps * static_cast<double>(plan_.global_batch) / seconds;
    r.seconds_per_batch = seconds / steps;
    r.learning_rate = rate_at(done - 1);
    if (options_.loss_scaling().dynamic) r.loss_scale = totals.loss_scale;
    r.straggler = look_for_straggler(done, times, trained_ + seconds);
    r.exposed_communication = std::clamp((times.exposed - last_times_.exposed) / seconds, 0.0, 1.0);
    r.loader_wait = std::clamp((times.loader - last_times_.loader) / seconds, 0.0, 1.0);
    reporter_.step(r);
    last_times_ = times;
    last_report_step_ = done;
    last_report_time_ = now_seconds();
    trained_ += seconds;
    aside_ = 0;
  }

  /// Collective. Over the steps since the last look, once there are enough of them. `trained`:
  /// seconds up to this step.
  std::optional<Straggler> look_for_straggler(std::int64_t done, const StepTimes& times,
                                              double trained) {
    constexpr std::int64_t kSteps = 10;
    if (comm_.size() == 1) return std::nullopt;
    const std::int64_t steps = done - looked_.step;
    if (looked_.trained > 0 && steps < kSteps) return std::nullopt;
    const Look before = std::exchange(looked_, {done, times.exposed, trained});
    if (before.trained == 0) return std::nullopt;  // the first step of a start is like no other
    const auto own = static_cast<std::uint64_t>((times.exposed - before.exposed) * 1e9);
    auto late = find_straggler(comm_.all_gather(std::span(&own, 1)), trained - before.trained);
    // Each rank has a clock and seconds of its own: rank 0 says.
    std::int64_t rank = late ? late->rank : -1;
    comm_.broadcast(std::span(&rank, 1));
    if (rank < 0) return std::nullopt;
    const std::string host = comm_.broadcast(host_name(), static_cast<int>(rank));
    if (late) late->host = host, late->steps = steps;
    return late;
  }

  /// Seconds of this start, without evaluations, checkpoints and the like.
  double trained_seconds() const { return trained_ + now_seconds() - last_report_time_ - aside_; }

  /// Steps of this start without an update.
  std::int64_t skipped() const { return step_.loss_scale().skipped - skipped_before_; }

  Lane* lane() const { return trace_ ? &trace_->timeline().compute : nullptr; }

  void verify(std::int64_t done) {
    phase("comparing weights", 0);
    const TimedSpan span(lane(), "comparing weights");
    verify_mirror(comm_, step_.layout(), read_only(step_.sections()), done);
  }

  /// Stays due where a rank is asked to stop meanwhile.
  void evaluate(std::int64_t done) {
    phase("evaluation", 0);
    const TimedSpan span(lane(), "evaluation");
    Record& record = world_.flight_recorder().mine();
    const auto result = evaluation_.run(comm_, step_.evaluated(), [&](double share) {
      record.progress();
      reporter_.evaluating(share);
      return !stop_requested_();
    });
    evaluation_due_ = !result;
    if (evaluation_due_) return;
    reporter_.evaluation(done, plan_.epoch_at(done), *result,
                         step_.state().average ? "averaged weights" : "weights");
    reached_ = result->score.top1_percent();
    if (reached()) {
      reporter_.line(fmt::format("{:<12} {:g} % of the test set is reached after step {}, {}",
                                 "target", options_.reports.target, done, time_of_run()));
    }
    const std::int64_t epoch = options_.reports.epoch_lines ? epoch_that_ends(plan_, done) : 0;
    if (epoch == 0) return;
    if (epoch_.steps() > 0) reporter_.epoch(done, epoch, epoch_, *result);
    epoch_.begin();
  }

  /// Once for each step, and again where an evaluation that it says is due is done: until then the
  /// run that goes on has to make up for it, however this one ends.
  void save(std::int64_t done) {
    if (options_.checkpoints.dir.empty()) return;
    if (done == saved_step_ && evaluation_due_ == saved_due_) return;
    verify(done);
    require_finite(done);
    phase("checkpoint", kSlowFiles);
    const TimedSpan span(lane(), "checkpoint");
    const std::int64_t samples =
        plan_.start.samples + (done - plan_.start.step) * plan_.global_batch;
    std::vector<std::vector<float>> memory;
    const std::vector<ConstSection> kept =
        gather_residuals(comm_, step_.layout(), step_.own_sections(), memory);
    agree(comm_, [&] {
      if (comm_.rank() != 0) return;
      CheckpointMetadata metadata;
      metadata.position = {done, samples, samples / plan_.dataset_size, plan_.seed};
      metadata.texts = texts_;
      if (evaluation_due_) metadata.texts["evaluation"] = kDue;
      if (reached()) metadata.texts[kReached] = fmt::format("{}", reached_);
      if (const std::string best = reporter_.best(); !best.empty()) metadata.texts[kBest] = best;
      if (options_.loss_scaling().dynamic) metadata.texts[kLossScale] = step_.loss_scale().text();
      if (!kept.empty()) {
        metadata.texts[kResiduals] =
            SavedResiduals{step_.loss_scale().scale, static_cast<std::int64_t>(kept.size())}.text();
      }
      folders_->require_held();
      reporter_.sync();
      std::vector<ConstSection> sections = read_only(step_.sections());
      sections.insert(sections.end(), kept.begin(), kept.end());
      last_file_ = save_checkpoint(options_.checkpoints.dir, step_.layout(), sections, metadata);
      for (const std::string& warning : pruner_.prune(last_file_))
        reporter_.line(fmt::format("{:<12} {}", "warning", warning));
    });
    if (comm_.rank() == 0 && saved_step_ != done) reporter_.saved(done, last_file_);
    saved_step_ = done;
    world_.flight_recorder().saved();
    saved_due_ = evaluation_due_;
    last_save_ = now_seconds();
  }

  /// Collective. What diverges in this very step must neither replace the last good checkpoint nor
  /// end as a success.
  void require_finite(std::int64_t done) {
    agree(comm_, [&] {
      for (const Section& section : step_.sections()) {
        const float* values = section.arena;
        require(std::all_of(values, values + step_.layout().count,
                            [](float value) { return std::isfinite(value); }),
                "Model diverged: {} not finite after step {}{}",
                section.name == "parameters" ? "weights are" : section.name + " is", done, cure());
      }
    });
  }

  /// Collective. After the last step no other will notice that its update was too large.
  void require_finite_loss(std::int64_t done) {
    phase("looking at the last update", 0);
    if (comm_.max(!std::isfinite(step_.loss_now())) == 0) return;
    throw AgreedError(
        fmt::format("Model diverged: the loss after step {} is no number{}", done, cure()));
  }

  /// Collective, and only a warning: the run is over, and what it came to is saved.
  void write_trace() {
    if (!trace_) return;
    phase("writing the trace", kSlowFiles);
    const std::string problem = trace_->write(options_.reports.trace);
    reporter_.line(
        problem.empty()
            ? fmt::format("{:<12} {}: open it at ui.perfetto.dev", "trace", options_.reports.trace)
            : fmt::format("{:<12} there is no --trace: {}", "warning", problem));
  }

  [[noreturn]] void fail_diverged(std::int64_t done, double loss) const {
    throw AgreedError(fmt::format("Model diverged with loss = {} at step {}{}",
                                  std::isnan(loss) ? "NaN" : "infinity", done, cure()));
  }

  std::string cure() const {
    if (last_file_.empty()) return ": use a smaller --lr or a --warmup-epochs";
    // A run that goes on may be beyond any warm-up.
    return fmt::format("; the last good checkpoint is {}: use a smaller --lr", last_file_.string());
  }

  int stop(std::int64_t done) {
    reporter_.summary(done, trained_seconds(), skipped());
    if (options_.checkpoints.dir.empty()) {
      throw AgreedError(fmt::format(
          "stopped on request after step {}; nothing was saved, for there is no --checkpoint-dir",
          done));
    }
    reporter_.line(
        fmt::format("stopped on request after step {}{}: the same command goes on from there", done,
                    evaluation_due_ ? ", before its evaluation was done" : ""));
    return kExitRequeue;
  }

  void phase(const char* name, double limit_seconds) {
    world_.flight_recorder().mine().phase(name, limit_seconds);
  }

  World& world_;
  Comm comm_;
  const Options& options_;
  const RunPlan& plan_;
  const RunFolders* folders_;  ///< of rank 0; elsewhere none
  const std::function<bool()>& stop_requested_;
  const ModelEntry& entry_;
  std::unique_ptr<Trace> trace_;  ///< null: nobody asked
  TrainingStep step_;
  Evaluation evaluation_;
  Reporter reporter_;
  Circumstances texts_;  ///< what checkpoints say besides the position

  CheckpointPruner pruner_{options_.checkpoints.dir, options_.checkpoints.keep};
  std::filesystem::path last_file_;
  std::string wire_note_;
  std::int64_t taken_ = 0;  ///< steps whose totals are known: up to DeviceTraits::run_ahead fewer
  std::int64_t saved_step_ = -1, last_report_step_ = 0;
  std::int64_t skipped_before_ = 0;  ///< steps, when this start began
  bool evaluation_due_ = false;      ///< of the step just done, and not yet done
  double reached_ = 0;               ///< per cent of the test set, by the last evaluation
  bool saved_due_ = false;           ///< so the checkpoint of saved_step_ says
  double last_save_ = 0, last_report_time_ = 0;
  double aside_ = 0;    ///< seconds since the last report that were not training
  double trained_ = 0;  ///< seconds of training up to the last report
  StepTimes last_times_;
  struct Look {
    std::int64_t step = 0;
    double exposed = 0, trained = 0;
  };
  Look looked_;  ///< for a straggler
  EpochRecord epoch_;
};

}  // namespace

int train(World& world, const Options& options, const std::function<bool()>& stop_requested,
          Device* device) {
  const Comm comm = world.comm();
  Record& record = world.flight_recorder().mine();
  world.watchdog().set_timeout(options.ranks.timeout);
  const std::size_t base_memory = own_memory_bytes();

  const auto look_for_stop = [&] {
    if (comm.max(stop_requested()) == 0) return;
    throw AgreedError(
        "stopped on request before the first step: there is nothing to save yet, and the same "
        "command begins again",
        kExitRequeue);
  };

  look_for_stop();
  record.phase("waiting for the folders of another run", kSlowFiles);
  await_folders(comm, options, look_for_stop);
  record.phase("looking for checkpoints", kSlowFiles);
  std::optional<RunFolders> folders;
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    folders.emplace(options);
    if (!options.reports.trace.empty())
      require_trace_file(options.reports.trace);  // in one of them, perhaps
  });
  const Resumption resumption = find_resumption(comm, options);
  std::vector<std::string> notes = folders ? folders->notes() : std::vector<std::string>{};
  notes.insert(notes.end(), resumption.notes.begin(), resumption.notes.end());
  Options resumed;
  agree(comm, [&] { resumed = resumed_options(options, resumption, comm.size(), notes); });
  Placement placement = place(comm, resumed.device.threads);
  DatasetPair data;
  record.phase("opening the data", kSlowFiles);
  agree(comm, [&] {
    if (folders) folders->name_run(resumption.run);
    data = find(datasets(), options.data.dataset).open(options.data.folder, resumed.schedule.seed);
    require_fit(find(models(), options.model.name), data.train->sample_shape());
    set_augmentation(options, *data.train);
  });
  look_for_stop();
  expect_same(comm, "files of data", data.identity);
  if (options.summary) {
    if (comm.rank() == 0) {
      const auto lines = model_table(find(models(), options.model.name), data.train->sample_shape(),
                                     data.train->classes());
      Console().line(fmt::format("{}", fmt::join(lines, "\n")));
    }
    return kExitSuccess;
  }
  RunPlan plan;
  agree(comm, [&] {
    require_same_data(resumption, data.identity, data.class_names, notes);
    follow_checkpoint(options, resumption, data, notes);
    plan = plan_run(resumed, {comm.rank(), comm.size(), placement.threads}, data.train->size(),
                    resumption.metadata.position);
  });
  plan.run = resumption.run;
  plan.parent = resumption.parent;
  plan.began = resumption.began;
  plan.notes.insert(plan.notes.begin(), notes.begin(), notes.end());

  record.phase("making the model");
  std::unique_ptr<Device> named;
  if (device == nullptr) {
    named = make_training_device(comm, options, placement);
    device = named.get();
  }
  require_precision(comm, *device, options);
  look_for_stop();
  record.phase("choosing kernels", slow_tuning(*device));
  const auto& texts = resumption.metadata.texts;
  const auto before = texts.find(kTuning);
  choose_kernels(comm, *device, options, plan, *data.train,
                 before == texts.end() ? "" : before->second);
  record.phase("making the model");
  std::unique_ptr<Loader> loader;  // outlives the steps that read from it
  Trainer trainer(world, options, data, *device, plan, folders ? &*folders : nullptr,
                  stop_requested);
  look_for_stop();
  record.phase("restoring the checkpoint", kSlowFiles);
  if (!resumption.file && !options.model.init.empty()) trainer.begin_with(options.model.init);
  if (!resumption.file && options.model.init.empty()) {
    record.phase("looking at the data", kSlowFiles);
    trainer.prepare(*data.train);
  }
  if (resumption.file) {
    trainer.restore(resumption);
    const auto more = changes(resumption.metadata.texts, trainer.texts(), options);
    plan.notes.insert(plan.notes.end(), more.begin(), more.end());
    if (!trainer.wire_note().empty()) plan.notes.push_back(trainer.wire_note());
  }
  record.phase("comparing weights");
  verify_mirror(comm, trainer.step().layout(), read_only(trainer.step().sections()),
                plan.start.step);
  look_for_stop();
  loader = make_loader(*device, *data.train, loader_spec(options, plan, trainer.step()));
  print_summary({comm, options, plan, resumption, placement, *device, data, trainer.step(),
                 trainer.evaluation(), *loader, base_memory},
                trainer.reporter());
  if (options.check) {
    trainer.reporter().line("all is well: --check trains nothing");
    return kExitSuccess;
  }
  const bool complete = plan.start.step >= plan.steps && !trainer.evaluation_due();
  if (complete || trainer.reached())
    agree(comm, [&] { require_same_run(resumption, trainer.texts(), options); });
  if (complete) {
    trainer.reporter().line(
        fmt::format("complete already: {} is at step {} of {}; ask for more --steps to go on, or "
                    "choose another --checkpoint-dir to start anew",
                    resumption.file->string(), plan.start.step, plan.steps));
    return kExitSuccess;
  }
  if (trainer.reached()) {
    trainer.reporter().line(
        fmt::format("complete already: {} has reached its --target; ask for a higher one to go on, "
                    "or choose another --checkpoint-dir to start anew",
                    resumption.file->string()));
    return kExitSuccess;
  }
  return world.or_end_all([&] { return trainer.run(*loader); });
}

}  // namespace lockstep
