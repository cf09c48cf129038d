// The data of a run, and those of the checkpoint that it resumes or begins with: their files,
// classes and normalisation.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/record/resumption.h"
#include "src/data/dataset.h"

namespace lockstep {

/// In the folder of a run: the fingerprints of its training and validation samples, numbers of 8
/// bytes, sorted.
inline constexpr const char* kFingerprints = "samples.bin";

/// The text of data/normalisation.h for data like these; empty: they are no whole images.
std::string normalisation_of(const Dataset& data);

/// "20000, crc32c 6f3c9a01": the words of a data set of texts; empty: it has none.
std::string words_of_texts(const OpenedData& data);

/// The first file in which two identities of data (OpenedData::identity, one file a line) differ:
/// "two.bin = crc32c 00000003, not crc32c 00000002", "two.bin is missing"; empty if none does.
/// `only_now`: files that are only in `before` do not count.
std::string first_other_file(const std::string& before, const std::string& now,
                             bool only_now = false);

/// Writes the fingerprints of the training and validation samples to the folder of the run. Throws
/// Error.
void keep_fingerprints(const std::filesystem::path& folder, const OpenedData& data);
/// A note that counts the samples of `test` that are among those of the run of `checkpoint`, a file
/// in its folder. Empty: there are none, or the folder has no fingerprints.
std::string note_of_trained(const std::filesystem::path& checkpoint, const Dataset& test);

/// Throws a usage Error if the checkpoint was trained on other data: the classes that are new or
/// missing, or the first file that differs.
void require_same_data(const Resumption& resumption, const OpenedData& data);

/// Normalises `data` by such a text of `file`. An empty text changes nothing, nor do data that are
/// no whole images. Throws Error that names `file`.
void normalise(Dataset& data, const std::string& text, const std::string& file);

/// Whether the weights of --init are of this model, but of other classes than `data`, or of the
/// same in another order.
bool has_other_classes(const Resumption& resumption, const std::string& model,
                       const OpenedData& data);

/// Before training: normalises all sets as the checkpoint of the resume did, or the weights of
/// --init. Adds to `notes` if the weights of --init come from other classes, or from images with
/// another normalisation. Throws the usage Error if either comes from texts with other words.
void follow_checkpoint(const Resumption& resumption, const Options& options, OpenedData& data,
                       std::vector<std::string>& notes);

}  // namespace lockstep
