// Predictions as CSV (RFC 4180, lines end with LF): a row for each sample with its file or number,
// the classes, and the probability of each class.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/comm/comm.h"
#include "src/base/view.h"
#include "src/data/dataset.h"
#include "src/files/file.h"

namespace lockstep {

/// `text` as a field: with quotes if it contains a comma, a quote or a line end.
std::string csv_field(const std::string& text);

/// ",p(cat),p(dog)", which ends the header.
std::string csv_class_heads(const std::vector<std::string>& classes);

/// ",0.25,0.75", which ends a row.
std::string csv_probabilities(std::span<const double> probabilities);

/// The probabilities of a row of logits. Not finite if a logit is not.
std::vector<double> probabilities_of(std::span<const double> logits);

/// Calls look(row) with each row of `logits`, in memory of the host, as doubles.
void for_each_row(View logits, const std::function<void(std::span<const double>)>& look);

/// The file of evaluate --predictions, complete or absent, and the same for any number of ranks.
class PredictionFile {
 public:
  /// `file`: where rank 0 writes; empty on other ranks. `classes`: names by label. Throws Error if
  /// the file cannot be written.
  PredictionFile(std::filesystem::path file, const Dataset& data, std::vector<std::string> classes);
  ~PredictionFile();                                     ///< without commit() nothing is left
  PredictionFile& operator=(PredictionFile&&) = delete;  ///< neither copied nor moved

  /// The row of a sample of `data` with these logits. The predicted class is that of the confusion
  /// matrix (net/loss.h).
  std::string row(const Dataset& data, std::int64_t sample, std::span<const double> logits) const;
  /// Collective. Writes the rows of all ranks in rank order. Throws AgreedError.
  void append(const Comm& comm, const std::string& rows);
  /// On rank 0, once: gives the file its name. Throws Error.
  void commit();

 private:
  std::filesystem::path path_, temporary_;
  std::vector<std::string> classes_;  ///< as fields
  std::optional<OutputFile> file_;
};

}  // namespace lockstep
