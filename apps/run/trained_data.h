// Compares the data of a checkpoint with the data of now: samples, classes, and the normalisation
// of images.
#pragma once

#include <string>
#include <vector>

#include "apps/run/options.h"
#include "apps/run/resumption.h"
#include "net/checkpoint.h"
#include "src/data/dataset.h"

namespace lockstep {

/// The text of a checkpoint that holds to_text() of src/data/standard.h.
inline constexpr const char* kNormalisation = "normalisation";

/// The text of that name; empty if there is none.
std::string text_of(const CheckpointMetadata& metadata, const char* name);

/// The text of a checkpoint that names its classes by label, one a line. Early ones do not.
inline constexpr const char* kClassNames = "class_names";

/// The first file in which two identities of data (DatasetPair::identity, one file a line) differ:
/// "two.bin = crc32c 00000003, not crc32c 00000002", "two.bin is missing"; empty if none does.
/// `only_now`: files that are only in `before` do not count.
std::string first_other_file(const std::string& before, const std::string& now,
                             bool only_now = false);

/// Throws a usage Error if the checkpoint was trained on other data: the classes that are new or
/// missing, or the first file that differs. A line of `notes` if it does not name its data.
void require_same_data(const Resumption& resumption, const std::string& identity,
                       const std::vector<std::string>& class_names,
                       std::vector<std::string>& notes);

/// For the checkpoints of a run on `data`; empty if they are no whole images.
std::string normalisation_of(const Dataset& data);

/// Normalises `data` by such a text of `file`. An empty text changes nothing, and neither do data
/// that are no whole images. Throws Error that names `file`.
void normalise(Dataset& data, const std::string& text, const std::string& file);

/// Before training: normalises both sets as the checkpoint of the resume did, or the weights of
/// --init. Throws Error if these weights are of another number of classes. `notes` gains a line if
/// the weights of --init come from other classes, or from images with another normalisation.
void follow_checkpoint(const Options& options, const Resumption& resumption, DatasetPair& data,
                       std::vector<std::string>& notes);

}  // namespace lockstep
