// The checkpoints that evaluate, classify and export_model use: their options, a folder that a run
// may still write to, the description of a checkpoint, and the test set for its network.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "apps/record/run_files.h"
#include "collectives/comm/comm.h"
#include "net/checkpoint.h"
#include "net/description/network_file.h"
#include "src/base/option_rows.h"
#include "src/base/view.h"
#include "src/data/dataset.h"

namespace lockstep {

/// The checkpoints of a folder, or of checkpoints/ in it, the newest first.
class CheckpointFolder {
 public:
  /// `warn` is called once for each file that is damaged.
  CheckpointFolder(std::filesystem::path directory, std::function<void(const std::string&)> warn)
      : directory_(std::move(directory)), warn_(std::move(warn)) {}

  /// The whole checkpoint of the highest step, verified. Null: there is none, or it has the run and
  /// the step of the last call's, perhaps saved again after its run has evaluated it. The run may
  /// remove files meanwhile. Throws Error if the folder cannot be read.
  std::unique_ptr<Checkpoint> next();

 private:
  std::filesystem::path directory_;
  std::function<void(const std::string&)> warn_;
  std::optional<FileStamp> last_;
  std::pair<std::string, Position> last_state_;  ///< id of the run, and its step
  std::set<FileStamp> damaged_;
};

/// The folder that path_of_run() finds for `run`. Empty: it is a file, or nothing.
std::filesystem::path checkpoint_folder(const std::string& run);

/// A checkpoint without its weights.
struct EvaluatedCheckpoint {
  std::string file, dataset, model, precision;
  std::string program;  ///< that trained it; empty: it is not known
  std::string weights;  ///< "ema": the moving average; "raw": the weights
  std::string network;  ///< the text of the user's own network; empty: none
  DataOfCheckpoint images;
  std::int64_t step = 0;
  std::uint64_t seed = 0;

  const char* section() const { return weights == "ema" ? "ema" : "parameters"; }
  const char* weights_text() const { return weights == "ema" ? "moving average" : "raw weights"; }
  /// Throws a usage Error if this program does not know the model.
  ModelEntry entry() const;
  /// The entry of `dataset`. Throws a usage Error if this program does not know it.
  const DatasetEntry& source() const;
};

/// The options that choose weights.
struct CheckpointChoice {
  std::string program = {};    ///< its name in errors
  std::string run;             ///< its name, its folder, a folder of checkpoints, or a file
  std::string which = "best";  ///< "best", "last" or a step; only of a folder
  std::string weights = "auto";

  void declare(OptionRows& rows);
  /// Prints a line to stderr.
  void complain(const std::string& text) const;
};

/// A checkpoint, verified and open.
struct ChosenCheckpoint {
  std::unique_ptr<Checkpoint> checkpoint;
  std::string reason = {};  ///< of the choice in a folder; empty: the user names the file

  /// "runs/first/checkpoints/best.h5 (best accuracy 93.10 % at step 3200)"
  std::string text() const { return fmt::format("{} ({})", checkpoint->file().string(), reason); }
  /// Prints the line "model" if there was a choice.
  void print() const;
};

/// The one place that finds the checkpoint of a run. `warn` is called for each damaged file that a
/// newer one is preferred to. Throws Error if there is no such checkpoint.
ChosenCheckpoint open_checkpoint(const CheckpointChoice& choice,
                                 std::function<void(const std::string&)> warn);

/// The options that evaluate and classify share.
struct CheckpointUse : CheckpointChoice {
  std::string device = "auto";
  std::string precision;  ///< empty: as trained
  int threads = 0;        ///< per rank; 0: the node's cores divided by its ranks

  void declare(OptionRows& rows);
  Type type(const EvaluatedCheckpoint& subject) const {
    return type_called(precision.empty() ? subject.precision : precision);
  }
};

/// Collective. Describes `checkpoint`, which rank 0 has open; other ranks pass null. `weights`:
/// auto (the moving average if the file contains it), ema or raw. Throws a usage Error if `weights`
/// is ema and there is no average, Error if no training program wrote the file.
EvaluatedCheckpoint describe(const Comm& comm, const Checkpoint* checkpoint,
                             const std::string& weights);

/// The form of its samples, with the normalisation of its images. Throws Error if the checkpoint
/// does not contain it.
SampleFormat sample_format(const EvaluatedCheckpoint& checkpoint);

/// The place of its run's data, except that `asked` replaces what it names. Another folder has
/// other files, so the run's table counts only for the run's folder. Throws a usage Error if the
/// place is not known or does not exist, and for a table if the data set takes none.
DataPlace data_of_run(const EvaluatedCheckpoint& checkpoint, DataPlace asked);

/// Collective among the ranks of a host. The test set in `place`; `train` may be null. Images
/// are normalised as in training, and labels are those of the checkpoint's classes. Throws a usage
/// Error if the data set has no files and place.folders is not empty. Adds to `notes` if the data
/// differ from those of training.
OpenedData open_test_set(const EvaluatedCheckpoint& checkpoint, const DataPlace& place,
                         const HostRanks& host, std::vector<std::string>& notes);

}  // namespace lockstep
