// Saver: restores the state of a run before training, and saves its checkpoints and states in
// memory. A state in memory is a copy of the state that outlives the ranks. A thread writes
// checkpoints from such a copy, beside the steps.
#pragma once

#include <exception>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "apps/record/progress.h"
#include "apps/record/resumption.h"
#include "apps/record/run_place.h"
#include "apps/record/state_memory.h"
#include "apps/run/run_setup.h"
#include "apps/run/state_schedule.h"
#include "apps/step/snapshot.h"
#include "apps/tell/reporter.h"
#include "net/checkpoint.h"

namespace lockstep {

/// Collective. The memory for copies of the state of a run that is saved in `folder`. Null: there
/// is no folder, or memory is short, with a note; then steps wait while a checkpoint is written.
/// `memory` (null: none) keeps them. If there is too little room for that, it becomes null, with a
/// note.
std::unique_ptr<Snapshot> make_snapshot(RunSetup& setup, const TrainingStep& step,
                                        const std::string& folder, StateMemory*& memory);

/// All calls are collective unless marked local, and throw AgreedError. Owner: train(), which keeps
/// the arguments alive. Thread: the computing one, when all steps are collected.
class Saver {
 public:
  /// `facts`: of the run, for its checkpoints. `snapshot`: null: save() writes before it returns.
  /// `memory`: for states in memory, which need `snapshot`; null: there are none.
  Saver(const RunSetup& setup, const RunFacts& facts, TrainingStep& step, Reporter& reporter,
        const RunPlace& place, Snapshot* snapshot, StateMemory* memory);
  /// Waits for the thread.
  ~Saver();
  Saver& operator=(Saver&&) = delete;  ///< neither copied nor moved

  /// Loads the state of the checkpoint. Returns its progress; `notes` gains a line about residuals.
  RunProgress restore(const Resumption& resumption, std::vector<std::string>& notes);
  /// A new run: its weights are those of --init, or prepared from the data, or random. If --init is
  /// of other classes, its last layer becomes zero. `notes` gains lines about --init on rank 0.
  void begin(const Resumption& resumption, std::vector<std::string>& notes);

  /// Local. The time since the last checkpoint asks for another, or the last one failed; only on
  /// rank 0. poll() comes first.
  bool is_due();
  bool saved(std::int64_t done) const { return saved_step_ == done; }  ///< local
  /// Local. The run was resumed from a state in memory, and has no checkpoint since.
  bool only_in_memory() const { return only_in_memory_; }

  /// Compares the weights of all ranks, bit for bit.
  void verify(std::int64_t done);
  /// Saves once after each step, and again when the progress has changed: a run that resumes from a
  /// file with an evaluation that is due does it first. With a validation set the file of one of
  /// the best evaluations gets its names (best_checkpoint.h). Returns when the state is copied;
  /// waits for the checkpoint before, and throws its error.
  void save(std::int64_t done, const RunProgress& progress);
  /// Waits until the last checkpoint is on the disk, and throws its error.
  void finish();
  /// Local. Reports the last checkpoint if it is on the disk.
  void poll();
  /// Throws if a number of the state is not finite, so that a run that diverges in its last step
  /// neither replaces the last good checkpoint nor succeeds.
  void require_finite(std::int64_t done);
  /// Local. The advice after divergence, as the end of an error's line.
  std::string advice();

  // States in memory: nothing without them.
  /// A checkpoint has all steps, so no state in memory is of use any more.
  void forget_states() {
    if (memory_) memory_->remove();
  }
  /// Steps begin after `done`.
  void begin_states(std::int64_t done);
  /// Local. A state in memory is due after this step.
  bool keeps(std::int64_t done) const { return memory_ && schedule_.is_due(done); }
  /// Local. This step is done.
  void finished(std::int64_t done) const {
    if (memory_) memory_->finished(done);
  }
  /// Keeps the state in memory if it is due, unless it is `last` or was saved: then the checkpoint
  /// is as new.
  void keep(std::int64_t done, const RunProgress& progress, bool last);

 private:
  /// The result of the thread.
  struct Written {
    std::filesystem::path file;  ///< the checkpoint
    std::int64_t step = 0;
    std::string weights;  ///< weights_sha256(); empty: the step has a checkpoint already
    std::vector<std::string> warnings;
  };
  using Sections = std::vector<ConstSection>;

  /// The state after a step, all finite and the same on all ranks.
  struct State {
    Sections sections;  ///< of a checkpoint: a copy if there is a snapshot
    CheckpointMetadata metadata;
    /// The residuals of all ranks, on ranks that keep a state.
    std::shared_ptr<std::vector<std::vector<float>>> residuals;
  };
  /// Collective. Keeps the copy in memory too, if there are such states.
  State copy_state(std::int64_t done, const RunProgress& progress, Snapshot::Purpose purpose);
  CheckpointMetadata metadata(std::int64_t done, const RunProgress& progress,
                              std::int64_t residuals) const;
  // Local.
  /// Waits for the thread, reports its checkpoint, and throws its error.
  void settle();
  /// The same when another error ends the run.
  void settle_quietly();
  void report(const Written& written);
  /// The last evaluation was that of this step, and is among the best: keep_best().
  bool is_best(std::int64_t done, const RunProgress& progress) const;
  [[noreturn]] void fail_not_finite(const std::string& section, std::int64_t done);

  const RunSetup& setup_;
  const CheckpointOptions& options_;
  TrainingStep& step_;
  Reporter& reporter_;
  const RunPlace& place_;
  Snapshot* const snapshot_;
  StateMemory* const memory_;
  const std::string facts_text_;        ///< of rank 0
  CheckpointPruner pruner_;             ///< of the thread
  std::filesystem::path last_file_;
  std::int64_t saved_step_ = -1;
  RunProgress saved_progress_;  ///< in the checkpoint of saved_step_
  double last_save_ = 0;
  std::future<Written> job_;    ///< on rank 0
  std::exception_ptr failure_;  ///< of the last checkpoint
  bool only_in_memory_ = false;
  StateSchedule schedule_;
  double copy_seconds_ = 0;  ///< of the last state in memory
  bool warned_ = false;      ///< that a state in memory failed
};

}  // namespace lockstep
