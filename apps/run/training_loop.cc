#include "apps/run/training_loop.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <future>
#include <optional>
#include <set>
#include <utility>

#include "apps/record/replay_steps.h"
#include "apps/record/weights_hash.h"
#include "apps/run/best_checkpoint.h"
#include "apps/run/training_clock.h"
#include "apps/step/share_tuner.h"
#include "collectives/comm/flight_recorder.h"
#include "src/base/check.h"
#include "src/base/clock.h"

namespace lockstep {
namespace {

bool due(std::int64_t done, std::int64_t every) { return every > 0 && done % every == 0; }

// The device may run some steps ahead of the host. So `done` counts the steps that are enqueued,
// and collected_ those whose totals the host has seen. All steps are collected before the weights
// are read. All ranks decide by the same totals and votes, so they reach the collective calls of
// after_step() together.
class TrainingLoop {
 public:
  TrainingLoop(const LoopParts& parts, const RunProgress& progress)
      : parts_(parts),
        setup_(parts.setup),
        plan_(setup_.plan),
        options_(setup_.options.reports),
        step_(parts.step),
        reporter_(parts.reporter),
        saver_(parts.saver),
        stragglers_(setup_.comm),
        progress_(progress) {
    const Comm& comm = setup_.comm;
    if (setup_.options.ranks.tunes_shares && comm.size() > 1)
      share_tuner_.emplace(comm.duplicate(), plan_.shares);
  }

  void run() {
    std::int64_t done = plan_.start.step;
    if (done < plan_.steps && !progress_.over(options_)) progress_.tested = {};
    // Lines of the log that this start will write again.
    const char* redone = progress_.tested.known() ? "" : "test";
    if (progress_.evaluation_due) redone = "evaluation";
    const bool given = done == 0 && !setup_.options.model.init.empty();
    agree(setup_.comm, [&] { reporter_.begin(redone, progress_, given ? hasher()() : ""); });
    // A damaged sample among the first steps ends the run here. Otherwise a vote would find it,
    // after the first step.
    if (done < plan_.steps && !progress_.over(options_)) require_batches(parts_, done);
    if (share_tuner_) reporter_.shares(done, plan_.shares);
    saver_.begin_states(done);
    clock_.begin(now_seconds(), done);
    // The former start ended between a step and its evaluation, which comes first.
    if (progress_.evaluation_due) {
      evaluate(done);
      saver_.save(done, progress_);
      if (progress_.evaluation_due) stop(done);
      clock_.begin(now_seconds(), done);
    }
    for (collected_ = done; done < plan_.steps && !progress_.over(options_);) {
      const Votes votes{parts_.stop_requested(), saver_.is_due()};
      step_.enqueue(*parts_.loader, done, static_cast<float>(rate_at(done)), votes,
                    reports(done + 1));
      clock_.enqueued();
      ++done;
      Votes asked = collect(/*all=*/looks_at_weights(done));
      const bool replayed = !replay_.empty() && done >= *replay_.rbegin();
      asked.stop |= replayed && leaves_ == "evaluation";
      // The weights are those of the last step that was enqueued.
      if (asked.stop || asked.save) asked = asked | collect(/*all=*/true);
      if (collected_ == done) after_step(done, asked);
      if (share_tuner_) tune_shares(done);
      // After the last step a request to stop counts only if an evaluation is due. test() looks at
      // requests itself.
      const bool more = done < plan_.steps && !progress_.over(options_);
      if (((asked.stop || replayed) && more) || progress_.evaluation_due) stop(done);
    }
    // A run that resumed from memory after its last step has no checkpoint of it yet.
    if (saver_.only_in_memory()) saver_.save(done, progress_);
    saver_.finish();
    reporter_.ended(progress_);
    if (tests_at_end(setup_) && !progress_.tested.known()) {
      if (leaves_ == "test") stop(done);
      test(done);
    }
    summarize(done, "complete");
  }

 private:
  double rate_at(std::int64_t step) const {
    return learning_rate(plan_.rate, plan_.epoch_at(step), plan_.epoch_at(plan_.steps));
  }

  bool reports(std::int64_t done) const {
    return done == plan_.start.step + 1 || due(done, options_.log_every) || done == plan_.steps;
  }

  /// Whether the weights are read after this step, as far as that is known before it.
  bool looks_at_weights(std::int64_t done) const {
    return due(done, options_.summary_every) || due(done, options_.verify_every) ||
           evaluates(done) || saves(done) || saver_.keeps(done) || done == plan_.steps;
  }

  bool saves(std::int64_t done) const {
    return due(done, setup_.options.checkpoints.every.steps) || replay_.contains(done);
  }

  /// An evaluation follows this step.
  bool evaluates(std::int64_t done) const {
    return due(done, options_.eval_every) ||
           (options_.epoch_lines && plan_.epoch_that_ends(done) > 0) ||
           (done == plan_.steps && options_.evaluates());
  }

  /// Collects the totals that are ready, or those of all enqueued steps. Returns the ranks' votes.
  Votes collect(bool all) {
    Votes asked;
    // Totals are the same on all ranks, so all of them find the divergence at the same step.
    while (const auto totals = step_.collect(all)) {
      saver_.finished(++collected_);
      if (!std::isfinite(totals->cross_entropy)) {
        throw AgreedError(fmt::format("Model diverged with loss = {} at step {}{}",
                                      std::isnan(totals->cross_entropy) ? "NaN" : "infinity",
                                      collected_, saver_.advice()),
                          kExitDiverged);
      }
      epoch_.add(*totals);
      if (reports(collected_)) report(collected_, *totals);
      reporter_.progress(collected_, totals->cross_entropy);
      asked = asked | Votes{totals->stop, totals->save};
    }
    return asked;
  }

  void after_step(std::int64_t done, Votes asked) {
    const bool end = done == plan_.steps;
    const double start = now_seconds();
    if (due(done, options_.summary_every)) {
      const TimedSpan span = phase("histograms", "writing histograms");
      reporter_.histograms(done, step_.layout(), step_.sections().front().arena, step_.gradients());
    }
    if (due(done, options_.verify_every)) saver_.verify(done);
    // Before the checkpoint, which then says that the evaluation is due. A run that is killed
    // during the evaluation repeats only that. The file is saved again with the result.
    progress_.evaluation_due = evaluates(done);
    if (end) require_finite_loss(done);
    if (saves(done) || asked.save || asked.stop || end) saver_.save(done, progress_);
    if (end && !saver_.saved(done)) saver_.require_finite(done);
    if (progress_.evaluation_due && !asked.stop) {  // else the resumed run does it
      evaluate(done);
      const bool best = setup_.data.validation && progress_.is_among_best(done);
      if (progress_.evaluation_due || saver_.saved(done) || progress_.over(options_) || best)
        saver_.save(done, progress_);
    }
    saver_.keep(done, progress_, end || asked.stop || progress_.over(options_));
    clock_.leave_out(now_seconds() - start);
  }

  /// Ranks that compute faster than others get more shards, and slow ones fewer.
  void tune_shares(std::int64_t done) {
    const StepTimes times = step_.times();
    const double computing = times.forward + times.backward + times.loader;
    const auto change = share_tuner_->after_step(done, plan_.steps, computing);
    if (!change) return;
    const double start = now_seconds();
    const TimedSpan span = phase("shares", "changing the shares of the ranks");
    // The loader of the old shares has read ahead. The new one begins with the first sample after
    // step `done`.
    parts_.loader.reset();
    setup_.plan.share(change->shares, setup_.comm.rank());
    step_.share();
    parts_.loader = setup_.make_loader(step_, done);
    share_tuner_->changed(now_seconds() - start);
    reporter_.shares_changed(done, *change);
  }

  void report(std::int64_t done, const StepTotals& totals) {
    const StepTimes times = step_.times();
    const double now = now_seconds();
    // A device that runs ahead has done steps that are not collected yet. They belong to the time
    // that has passed, so speeds count them.
    const std::int64_t done_by_device = collected_ + step_.done_ahead();
    StepReport r;
    r.step = done;
    // Epochs on images of fewer pixels take less time.
    const double worked = step_.work(plan_.epoch_at(clock_.first_done()),
                                     plan_.epoch_at(done_by_device)),
                 left = step_.work(plan_.epoch_at(done), plan_.epoch_at(plan_.steps));
    r.seconds_left = clock_.trained(now) / worked * left;
    if (const auto interval = clock_.report(now, done_by_device, totals.waited)) {
      r.steps = interval->steps;
      r.samples = r.steps * plan_.global_batch;
      r.seconds = interval->seconds;
      r.times = times - std::exchange(last_times_, times);
    }
    r.totals = totals;
    r.epoch = plan_.epoch_at(done);
    r.learning_rate = rate_at(done - 1);
    r.timed = setup_.device->traits().memory_is_host;
    r.straggler = stragglers_.find(done, times.exposed, clock_.trained(now));
    reporter_.step(r);
    reporter_.hosts(done, stragglers_.hosts());
    name_skipped();
  }

  /// A function for any thread that hashes the weights, until the next step. It returns an empty
  /// text on ranks other than 0.
  std::function<std::string()> hasher() {
    if (setup_.comm.rank() != 0) return [] { return std::string(); };
    return [&layout = step_.layout(), weights = step_.weights()] {
      return weights_sha256(layout, weights);
    };
  }

  /// Stays due if a rank is asked to stop meanwhile.
  void evaluate(std::int64_t done) {
    const TimedSpan span = phase("evaluation", "evaluation");
    // An exception below waits for this thread, because the destructor of such a future does. So
    // the weights do not change under it.
    auto hash = std::async(std::launch::async, hasher());  // beside the evaluation
    std::optional<EvaluationResult> result;
    try {
      result = parts_.evaluation.run(setup_.comm, step_.evaluated(),
                                     [this](double share) { return keep_going(share); });
    } catch (const AgreedError&) {  // an image cannot be read: the resumed run evaluates
      saver_.save(done, progress_);
      saver_.finish();
      throw;
    }
    name_skipped();
    progress_.evaluation_due = !result;
    // A rank was asked to stop, so the evaluation stays due for the next start.
    if (!result) return;
    weights_ = {done, hash.get()};
    reporter_.evaluation({.result = *result,
                          .data = setup_.data.evaluated(),
                          .done = done,
                          .step = done,
                          .sha256 = weights_.sha256});
    progress_.evaluated({{done, result->score.top1_share()},
                         options_.best,
                         options_.measure().value(*result),
                         result->score.loss()},
                        setup_.options.checkpoints.keep_best);
    reporter_.record("running", done, clock_.trained(now_seconds()), progress_, weights_.sha256);
    if (progress_.reached(options_)) reporter_.reached_target(done);
    // The line of an epoch has the totals since the last one. An evaluation within an epoch does
    // not end it.
    epoch_.number = options_.epoch_lines ? plan_.epoch_that_ends(done) : 0;
    if (epoch_.number == 0) return;
    epoch_.epochs = plan_.epoch_at(plan_.steps);
    if (epoch_.steps > 0) reporter_.epoch(done, epoch_, *result);
    epoch_ = {};
  }

  /// Collective. Names each damaged image once, whichever rank met it first.
  void name_skipped() {
    for (const std::string& fact : newly_skipped(setup_.comm, *setup_.data.train))
      if (named_.insert(fact).second) reporter_.left_out(fact);
  }

  bool keep_going(double share) {
    setup_.recorder.progress();
    saver_.poll();
    reporter_.evaluating(share);
    return !parts_.stop_requested();
  }

  /// The test set, once, after the last step.
  void test(std::int64_t done) {
    const TimedSpan span = phase("test", "evaluating the test set");
    const auto tested =
        test_best(setup_, parts_.evaluation, parts_.place.checkpoints(), progress_.best, done,
                  step_.evaluated(), [this](double share) { return keep_going(share); });
    name_skipped();
    if (!tested) stop(done);
    const bool best = tested->step == progress_.best.step;
    reporter_.evaluation({tested->result, *setup_.data.test, done, tested->step,
                          best ? Evaluated::Weights::best : Evaluated::Weights::last});
    progress_.tested = {tested->step, tested->result.score.top1_share()};
    saver_.save(done, progress_);
  }

  /// No later step would show that the last update was too large.
  void require_finite_loss(std::int64_t done) {
    setup_.recorder.phase("checking the last update", 0);
    if (setup_.comm.max(!std::isfinite(step_.loss_now())) == 0) return;
    throw AgreedError(fmt::format("Model diverged: the loss after step {} is not finite{}", done,
                                  saver_.advice()),
                      kExitDiverged);
  }

  void summarize(std::int64_t done, const char* status) {
    saver_.finish();
    if (weights_.step != done) weights_ = {done, hasher()()};
    reporter_.record(status, done, clock_.trained(now_seconds()), progress_, weights_.sha256);
  }

  [[noreturn]] void stop(std::int64_t done) {
    // In this order: the checkpoint is on the disk before the states in memory go. If the reason
    // for the vote was a sample that cannot be read, its error ends the run instead.
    saver_.finish();
    require_batches(parts_, done);
    summarize(done, "stopped");
    saver_.forget_states();
    const std::string& folder = parts_.place.folder();
    if (folder.empty()) {
      throw AgreedError(fmt::format(
          "a signal stopped the run after step {}. Nothing was saved, because it has no folder.",
          done));
    }
    const char* due = "";
    if (done == plan_.steps || progress_.over(options_))
      due = ", before the test set was evaluated";
    if (progress_.evaluation_due) due = ", before its evaluation was done";
    throw AgreedError(
        fmt::format("stopped on request after step {}{}: {} resumes there", done, due,
                    setup_.options.run.fresh ? "--run " + folder : "the same command"),
        kExitRequeue);
  }

  TimedSpan phase(const char* span, const char* name) {
    setup_.recorder.phase(name, 0);
    return TimedSpan(step_.track(), span);
  }

  const LoopParts parts_;
  RunSetup& setup_;
  const RunPlan& plan_;
  const ReportOptions& options_;
  TrainingStep& step_;
  Reporter& reporter_;
  Saver& saver_;
  StragglerWatch stragglers_;
  std::optional<ShareTuner> share_tuner_;  ///< with --shares auto
  const std::set<std::int64_t> replay_ = replay_steps(parts_.place.folder());
  const std::string leaves_ = replay_.empty() ? "" : replay_leaves();
  RunProgress progress_;
  TrainingClock clock_;
  EpochReport epoch_;
  std::set<std::string> named_;  ///< damaged images
  StepTimes last_times_;         ///< at the end of the clock's last interval
  std::int64_t collected_ = 0;   ///< steps whose totals are known
  /// The last hash of the weights, on rank 0.
  struct {
    std::int64_t step = -1;
    std::string sha256;
  } weights_;
};

}  // namespace

void require_batches(const LoopParts& parts, std::int64_t done) {
  parts.setup.recorder.phase("loading");
  agree(parts.setup.comm, [&] {
    const std::int64_t left = parts.setup.plan.steps - done;
    const auto why = parts.loader->failure(std::min<std::int64_t>(parts.step.steps_ahead(), left));
    if (why) std::rethrow_exception(why);
  });
}

void run_training_loop(const LoopParts& parts, const RunProgress& progress) {
  TrainingLoop(parts, progress).run();
}

}  // namespace lockstep
