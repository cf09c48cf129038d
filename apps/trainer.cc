#include "apps/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>

#include "apps/facts.h"
#include "apps/mirror.h"
#include "apps/placement.h"
#include "apps/reporter.h"
#include "apps/training_step.h"
#include "collectives/records.h"
#include "collectives/watchdog.h"
#include "net/checkpoint.h"
#include "src/data/dataset.h"
#include "src/file.h"
#include "src/machine.h"

namespace lockstep {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// What a checkpoint says of its "evaluation" where that is still to be done.
constexpr const char* kDue = "due";

class Trainer {
 public:
  Trainer(World& world, const Options& options, Dataset& train, Dataset& test, Device& device,
          const RunPlan& plan, const std::function<bool()>& stop_requested)
      : world_(world),
        comm_(world.comm()),
        options_(options),
        train_(train),
        plan_(plan),
        stop_requested_(stop_requested),
        entry_(find_model(options.model)),
        step_(world, device, entry_, train.classes(), options, plan),
        evaluation_(device, entry_, test, options.precision),
        reporter_(comm_, options, plan) {}

  /// Parameters, slots and average as the checkpoint has them, on all ranks.
  void restore(const Resumption& resumption) {
    const std::vector<Section> sections = step_.sections();
    agree(comm_, [&] {
      if (comm_.rank() == 0) load_checkpoint(*resumption.file, step_.layout(), sections);
    });
    last_file_ = *resumption.file;
    const auto evaluation = resumption.facts.texts.find("evaluation");
    evaluation_due_ = options_.eval_every > 0 && evaluation != resumption.facts.texts.end() &&
                      evaluation->second == kDue;
    for (const Section& section : sections) {
      check(MPI_Bcast(section.arena, static_cast<int>(step_.layout().count), MPI_FLOAT, 0,
                      comm_.raw()));
    }
  }

  /// The run was stopped before the evaluation of its last step: that is the first thing to do.
  bool evaluation_due() const { return evaluation_due_; }

  TrainingStep& step() { return step_; }
  Evaluation& evaluation() { return evaluation_; }
  Reporter& reporter() { return reporter_; }

  int run(Loader& loader) {
    agree(comm_, [&] { reporter_.begin(); });
    last_save_ = last_report_time_ = now();
    std::int64_t done = plan_.start.step;
    if (evaluation_due_) {
      evaluate(done);
      save(done);
      if (evaluation_due_) return stop(done);
      last_report_time_ = now();
    }
    for (last_report_step_ = done; done < plan_.steps;) {
      const bool report = done == plan_.start.step || (done + 1) % options_.log_every == 0 ||
                          done + 1 == plan_.steps;
      const double rate =
          learning_rate(options_.rate, plan_.epoch_at(done), plan_.epoch_at(plan_.steps));
      const double penalty_before = report ? penalty(step_.layout(), step_.state().parameters,
                                                     options_.optimizer_options.weight_decay)
                                           : 0;
      const StepTotals totals = step_.run(loader, done, static_cast<float>(rate), votes());
      ++done;
      if (!std::isfinite(totals.cross_entropy)) fail_diverged(done, totals.cross_entropy);
      if (report) {
        report_step(done, totals, penalty_before, rate);
      }
      reporter_.progress(done, totals.cross_entropy);
      after_step(done, totals);
      if ((totals.stop && done < plan_.steps) || evaluation_due_) return stop(done);
    }
    reporter_.summary(done, trained_seconds());
    return kExitSuccess;
  }

 private:
  static bool due(std::int64_t done, std::int64_t every) { return every > 0 && done % every == 0; }

  Votes votes() const {
    const double seconds = options_.checkpoint_every.seconds;
    return {stop_requested_(), comm_.rank() == 0 && seconds > 0 && now() - last_save_ >= seconds};
  }

  void after_step(std::int64_t done, const StepTotals& totals) {
    const bool end = done == plan_.steps;
    const double start = now();
    if (due(done, options_.summary_every)) {
      phase("writing histograms", 0);
      reporter_.histograms(done, step_.layout(), step_.state().parameters, step_.gradients());
    }
    if (due(done, options_.verify_every)) verify(done);
    const bool evaluates = due(done, options_.eval_every) || (end && options_.eval_every > 0);
    evaluation_due_ = evaluates && totals.stop;  // left to the run that goes on
    if (due(done, options_.checkpoint_every.steps) || totals.save || totals.stop || end) save(done);
    if (evaluates && !evaluation_due_) {
      evaluate(done);
      if (evaluation_due_) save(done);
    }
    aside_ += now() - start;
  }

  void report_step(std::int64_t done, const StepTotals& totals, double penalty, double rate) {
    const StepTimes times = step_.times();
    const double seconds = now() - last_report_time_ - aside_;
    const auto steps = static_cast<double>(done - last_report_step_);
    StepReport r;
    r.step = done;
    r.epoch = plan_.epoch_at(done);
    r.cross_entropy = totals.cross_entropy;
    r.penalty = penalty;
    r.batch_top1 = totals.top1_share;
    r.images_per_s = steps * static_cast<double>(plan_.global_batch) / seconds;
    r.seconds_per_batch = seconds / steps;
    r.learning_rate = rate;
    r.exposed_communication = std::clamp((times.exposed - last_times_.exposed) / seconds, 0.0, 1.0);
    r.loader_wait = std::clamp((times.loader - last_times_.loader) / seconds, 0.0, 1.0);
    reporter_.step(r);
    last_times_ = times;
    last_report_step_ = done;
    last_report_time_ = now();
    trained_ += seconds;
    aside_ = 0;
  }

  /// Seconds of this start, without evaluations, checkpoints and the like.
  double trained_seconds() const { return trained_ + now() - last_report_time_ - aside_; }

  void verify(std::int64_t done) {
    phase("comparing weights", 0);
    verify_mirror(comm_, step_.layout(), step_.state().parameters, done);
  }

  /// Stays due where a rank is asked to stop meanwhile.
  void evaluate(std::int64_t done) {
    phase("evaluation", 0);
    Record& record = world_.records().mine();
    const auto result = evaluation_.run(comm_, step_.evaluated(), [&](double share) {
      record.progress();
      reporter_.evaluating(share);
      return !stop_requested_();
    });
    evaluation_due_ = !result;
    if (evaluation_due_) return;
    reporter_.evaluation(done, plan_.epoch_at(done), *result,
                         step_.state().average ? "averaged weights" : "weights");
  }

  /// Once for each step, and again where an evaluation of that step has become due or is done.
  void save(std::int64_t done) {
    if (options_.checkpoint_dir.empty()) return;
    if (done == saved_step_ && evaluation_due_ == saved_due_) return;
    verify(done);
    constexpr double kLongest = 600;  // a slow file system, not a hang
    phase("checkpoint", kLongest);
    const std::int64_t samples =
        plan_.start.samples + (done - plan_.start.step) * plan_.global_batch;
    agree(comm_, [&] {
      if (comm_.rank() != 0) return;
      require_finite(done);
      CheckpointFacts facts;
      facts.position = {done, samples, samples / plan_.dataset_size, plan_.seed};
      facts.texts = {{"model", std::string(entry_.name)},
                     {"options", options_.text},
                     {"version", build_name()},
                     {"precision", name_of(options_.precision)},
                     {"dataset", options_.dataset},
                     {"global_batch", std::to_string(plan_.global_batch)},
                     {"shards", std::to_string(plan_.shards)},
                     {"threads", std::to_string(plan_.threads)}};
      if (evaluation_due_) facts.texts["evaluation"] = kDue;
      std::vector<ConstSection> sections;
      for (const Section& section : step_.sections())
        sections.push_back({section.name, section.arena});
      last_file_ =
          save_checkpoint(options_.checkpoint_dir, step_.layout(), sections, facts, options_.keep);
    });
    if (comm_.rank() == 0) reporter_.saved(done, last_file_);
    saved_step_ = done;
    saved_due_ = evaluation_due_;
    last_save_ = now();
  }

  /// The weights of a run that diverges in this very step must not replace the last good ones.
  void require_finite(std::int64_t done) const {
    const float* p = step_.state().parameters;
    const bool finite =
        std::all_of(p, p + step_.layout().count, [](float value) { return std::isfinite(value); });
    require(finite, "Model diverged: a weight is not a number after step {}{}", done, cure());
  }

  [[noreturn]] void fail_diverged(std::int64_t done, double loss) const {
    throw AgreedError(fmt::format("Model diverged with loss = {} at step {}{}",
                                  std::isnan(loss) ? "NaN" : "infinity", done, cure()));
  }

  std::string cure() const {
    const std::string kept =
        last_file_.empty() ? ""
                           : fmt::format("; the last good checkpoint is {}", last_file_.string());
    return kept + ": use a smaller --lr or a --warmup-epochs";
  }

  int stop(std::int64_t done) {
    reporter_.summary(done, trained_seconds());
    if (options_.checkpoint_dir.empty()) {
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
    world_.records().mine().phase(name, limit_seconds);
  }

  World& world_;
  Comm comm_;
  const Options& options_;
  const Dataset& train_;
  const RunPlan& plan_;
  const std::function<bool()>& stop_requested_;
  const ModelEntry& entry_;
  TrainingStep step_;
  Evaluation evaluation_;
  Reporter reporter_;

  std::filesystem::path last_file_;
  std::int64_t saved_step_ = -1, last_report_step_ = 0;
  bool evaluation_due_ = false;  ///< of the step just done, and not yet done
  bool saved_due_ = false;       ///< so the checkpoint of saved_step_ says
  double last_save_ = 0, last_report_time_ = 0;
  double aside_ = 0;    ///< seconds since the last report that were not training
  double trained_ = 0;  ///< seconds of training up to the last report
  StepTimes last_times_;
};

/// require_writable_directory() for a folder that stays as it is where it is only asked about: what
/// had to be made goes again.
void require_writable(const std::filesystem::path& directory, const char* option, bool only_ask) {
  std::vector<std::filesystem::path> made;
  std::error_code ignored;
  for (auto path = directory; !path.empty() && !std::filesystem::exists(path, ignored);
       path = path.parent_path()) {
    made.push_back(path);
  }
  require_writable_directory(directory, option);
  if (!only_ask) return;
  for (const std::filesystem::path& path : made) std::filesystem::remove(path, ignored);
}

/// Finds out before step one, not at the first checkpoint, that a folder cannot be written or
/// belongs to another run.
void require_folders(const Options& options) {
  if (!options.log_dir.empty()) require_writable(options.log_dir, "--log-dir", options.check);
  if (options.checkpoint_dir.empty()) return;
  require_writable(options.checkpoint_dir, "--checkpoint-dir", options.check);
  if (options.resume == "auto") return;
  for (const auto& file : list_checkpoints(options.checkpoint_dir)) {
    if (options.resume != "never" && std::filesystem::equivalent(file, options.resume)) break;
    fail_usage(
        "{} is in the way: --resume {} begins another line of checkpoints, so choose another "
        "--checkpoint-dir, or move the "
        "old ones away",
        file.string(), options.resume);
  }
}

}  // namespace

int train(World& world, const Options& options, const std::function<bool()>& stop_requested) {
  const Comm comm = world.comm();
  Record& record = world.records().mine();
  record.phase("start-up", 600);
  Watchdog watchdog(world, options.timeout);
  const std::size_t base_memory = own_memory_bytes();

  const auto look_for_stop = [&] {
    if (comm.max(stop_requested()) == 0) return;
    throw AgreedError(
        "stopped on request before the first step: there is nothing to save yet, and the same "
        "command begins again",
        kExitRequeue);
  };

  look_for_stop();
  const Resumption resumption = find_resumption(comm, options);
  int threads = 0;
  agree(comm, [&] { threads = wanted_threads(options, resumption); });
  const Placement placement = place(comm, threads);
  DatasetPair data;
  agree(comm, [&] {
    if (comm.rank() == 0) require_folders(options);
    const std::uint64_t seed =
        resumption.file && !options.seed_given ? resumption.facts.position.seed : options.seed;
    data = open_dataset(options.dataset, options.data, seed);
  });
  look_for_stop();
  RunPlan plan;
  agree(comm,
        [&] { plan = plan_run(options, comm, placement.threads, data.train->size(), resumption); });

  std::unique_ptr<Device> device;
  agree(comm, [&] { device = make_cpu_device(placement.threads); });
  look_for_stop();
  Trainer trainer(world, options, *data.train, *data.test, *device, plan, stop_requested);
  look_for_stop();
  if (resumption.file) trainer.restore(resumption);
  verify_mirror(comm, trainer.step().layout(), trainer.step().state().parameters, plan.start.step);
  look_for_stop();
  Loader loader(*data.train, {.seed = plan.seed,
                              .global_batch = plan.global_batch,
                              .shards = plan.shards,
                              .first_shard = plan.first_shard,
                              .own_shards = plan.own_shards,
                              .first_position = plan.start.samples,
                              .type = options.precision});
  print_facts({comm, options, plan, resumption, placement, *device, data, trainer.step(),
               trainer.evaluation(), loader, base_memory},
              trainer.reporter());
  if (options.check) {
    trainer.reporter().line("all is well: --check trains nothing");
    return kExitSuccess;
  }
  if (plan.start.step >= plan.steps && !trainer.evaluation_due()) {
    trainer.reporter().line(
        fmt::format("complete already: {} is at step {} of {}; ask for more --steps to go on, or "
                    "choose another --checkpoint-dir to start anew",
                    resumption.file->string(), plan.start.step, plan.steps));
    return kExitSuccess;
  }
  return trainer.run(loader);
}

}  // namespace lockstep
