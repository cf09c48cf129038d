// The provenance of a run: everything that decides its bits besides its position, its data
// included. Each checkpoint contains it, and a resume compares it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "apps/record/resumption.h"
#include "apps/options/run_options.h"
#include "apps/step/run_plan.h"
#include "apps/step/training_step.h"
#include "net/checkpoint.h"
#include "src/data/dataset.h"
#include "src/device/device.h"

namespace lockstep {

// Names of texts of a checkpoint.
inline constexpr const char* kTuning = "tuning";  ///< Device::tuning()
inline constexpr const char* kNormalisation =
    "normalisation";                                       ///< to_text() of data/normalisation.h
inline constexpr const char* kFormat = "sample_format";    ///< to_text() of a SampleFormat
inline constexpr const char* kNetwork = "network";         ///< the text of --model FILE.toml
inline constexpr const char* kClassNames = "class_names";  ///< by label, one a line

/// As in CheckpointMetadata::texts.
using Provenance = std::map<std::string, std::string>;

/// Collective. Rank 0 gets the provenance of the run that `plan` and `step` are about to begin;
/// other ranks get only their own part of it.
Provenance provenance(const Comm& comm, const Options& options, const RunPlan& plan,
                      const Device& device, const OpenedData& data, const TrainingStep& step);

/// "canonical", or "that of 2 ranks with 3 shards each": the order of sums if the reducer adds
/// ranks in the canonical order (collectives/schedule.h).
std::string order_of_shards(const RunPlan& plan);

/// A difference between a checkpoint and the run that resumes from it.
struct Change {
  std::string option;  ///< that makes it another run; empty: only the last bits may differ
  std::string note;    ///< one line
};

/// `options` are the present ones. Keys missing from an old checkpoint count as the default.
std::vector<Change> changes(const Provenance& before, const Provenance& now,
                            const Options& options);

/// Throws the usage Error that names the options of `changes` which make this another run than that
/// of `file`. Does nothing if the run has no folder of its own and is not `complete`. A run with a
/// folder may get more steps even if they change its learning rates.
void require_same_run(const std::string& file, const std::vector<Change>& changes,
                      const Options& options, bool complete);

/// The first file in which two identities of data (OpenedData::identity, one file a line) differ:
/// "two.bin = crc32c 00000003, not crc32c 00000002", "two.bin is missing"; empty if none does.
/// `only_now`: files that are only in `before` do not count.
std::string first_other_file(const std::string& before, const std::string& now,
                             bool only_now = false);

/// Throws a usage Error if the checkpoint was trained on other data: the classes that are new or
/// missing, or the first file that differs.
void require_same_data(const Options& options, const Resumption& resumption,
                       const OpenedData& data);

/// Normalises `data` by such a text of `file`. An empty text changes nothing, nor do data that are
/// no whole images. Throws Error that names `file`.
void normalise(Dataset& data, const std::string& text, const std::string& file);

/// Whether the weights of --init name other classes than `data`, or the same in another order.
bool has_other_classes(const Options& options, const CheckpointMetadata& initial,
                       const OpenedData& data);

/// Before training: normalises both sets as the checkpoint of the resume did, or the weights of
/// --init. Adds to `notes` if the weights of --init come from other classes, or from images with
/// another normalisation.
void follow_checkpoint(const Options& options, const Resumption& resumption, OpenedData& data,
                       std::vector<std::string>& notes);

}  // namespace lockstep
