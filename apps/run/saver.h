// Saver: restores the state of a run before training, and saves its checkpoints.
#pragma once

#include <filesystem>
#include <string>

#include "apps/record/progress.h"
#include "apps/record/resumption.h"
#include "apps/record/run_place.h"
#include "apps/run/run_setup.h"
#include "apps/tell/reporter.h"
#include "net/checkpoint.h"
#include "src/base/timeline.h"

namespace lockstep {

/// All calls are collective unless marked local, and throw AgreedError. Owner: train(), which keeps
/// the arguments alive. Thread: the computing one, when all steps are collected.
class Saver {
 public:
  /// `facts`: of the run, for its checkpoints. `track`: of the timeline; null: none.
  Saver(const RunSetup& setup, const RunFacts& facts, TrainingStep& step, Reporter& reporter,
        const RunPlace& place, Track* track);

  /// Loads the state of the checkpoint. Returns its progress; `notes` gains a line about residuals.
  RunProgress restore(const Resumption& resumption, std::vector<std::string>& notes);
  /// A new run: its weights are those of --init, or prepared from the data, or random. If --init is
  /// of other classes, its last layer becomes zero. `notes` gains lines about --init on rank 0.
  void begin(const Resumption& resumption, std::vector<std::string>& notes);

  /// Local. The time since the last checkpoint asks for another; only on rank 0.
  bool is_due() const;
  bool saved(std::int64_t done) const { return saved_step_ == done; }  ///< local

  /// Compares the weights of all ranks, bit for bit.
  void verify(std::int64_t done);
  /// Saves once after each step, and again when the progress has changed: a run that resumes from a
  /// file with an evaluation that is due does it first. With a validation set the file of the best
  /// evaluation becomes best.h5.
  void save(std::int64_t done, const RunProgress& progress);
  /// Throws if a number of the state is not finite, so that a run that diverges in its last step
  /// neither replaces the last good checkpoint nor succeeds.
  void require_finite(std::int64_t done);
  /// Local. The advice after divergence, as the end of an error's line.
  std::string advice() const;

 private:
  CheckpointMetadata metadata(std::int64_t done, const RunProgress& progress) const;
  /// On rank 0. Makes the last checkpoint the best one if it is.
  void keep_if_best(std::int64_t done, const RunProgress& progress) const;
  /// On rank 0.
  void write(std::int64_t done, const RunProgress& progress,
             const std::vector<ConstSection>& residuals);

  const RunSetup& setup_;
  const RunFacts& facts_;
  const CheckpointOptions& options_;
  TrainingStep& step_;
  Reporter& reporter_;
  const RunPlace& place_;
  Track* track_;
  CheckpointPruner pruner_;
  std::filesystem::path last_file_;
  std::int64_t saved_step_ = -1;
  RunProgress saved_progress_;  ///< in the checkpoint of saved_step_
  double last_save_ = 0;
};

}  // namespace lockstep
