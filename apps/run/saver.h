// Saver: the state of a run and its checkpoints. It restores the state before training, and saves
// it.
#pragma once

#include <filesystem>
#include <string>

#include "apps/run/provenance.h"
#include "apps/run/reporter.h"
#include "apps/run/resumption.h"
#include "apps/run/run_folders.h"
#include "apps/run/run_setup.h"
#include "net/checkpoint.h"
#include "src/base/timeline.h"

namespace lockstep {

/// The state of a run that lies in no arena.
struct RunProgress {
  bool evaluation_due = false;  ///< after the step just done
  double accuracy = 0;          ///< in per cent, by the last evaluation; 0: there was none
};

/// All calls are collective unless marked local, and throw AgreedError. Owner: train(), which keeps
/// the arguments alive. Thread: the computing one, when all steps that were given are taken.
class Saver {
 public:
  /// `folders`: rank 0's; null elsewhere. `lane`: of the timeline; null: none.
  Saver(const RunSetup& setup, TrainingStep& step, Reporter& reporter, const RunFolders* folders,
        Lane* lane);

  /// Loads the state of the checkpoint. Returns its progress; `notes` gains a line about residuals.
  RunProgress restore(const Resumption& resumption, std::vector<std::string>& notes);
  /// A new run: its weights are those of --init, or what the model prepares from the data, or
  /// random.
  void begin();

  const Provenance& provenance() const { return provenance_; }  ///< local
  /// Local. The time since the last checkpoint asks for another; only on rank 0.
  bool is_due() const;
  bool saved(std::int64_t done) const { return saved_step_ == done; }  ///< local

  /// Compares the weights of all ranks, bit for bit.
  void verify(std::int64_t done);
  /// Saves once after each step, and again when an evaluation that the file calls due is done:
  /// until then the run that goes on has to make up for it.
  void save(std::int64_t done, const RunProgress& progress);
  /// Throws if a number of the state is not finite. A run that diverges in its last step neither
  /// replaces the last good checkpoint nor ends as a success.
  void require_finite(std::int64_t done);
  /// Local. What to do after divergence, as the end of an error's line.
  std::string cure() const;

 private:
  CheckpointMetadata metadata(std::int64_t done, const RunProgress& progress) const;
  /// On rank 0.
  void write(std::int64_t done, const RunProgress& progress,
             const std::vector<ConstSection>& residuals);

  const RunSetup& setup_;
  const CheckpointOptions& options_;
  TrainingStep& step_;
  Reporter& reporter_;
  const RunFolders* folders_;
  Lane* lane_;
  Provenance provenance_;  ///< what checkpoints hold besides the position
  CheckpointPruner pruner_;
  std::filesystem::path last_file_;
  std::int64_t saved_step_ = -1;
  bool saved_due_ = false;  ///< the checkpoint of saved_step_ calls an evaluation due
  double last_save_ = 0;
};

}  // namespace lockstep
