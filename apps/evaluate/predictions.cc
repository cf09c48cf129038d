#include "apps/evaluate/predictions.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "src/base/check.h"
#include "src/base/elementary.h"

namespace lockstep {
namespace {

/// The highest of the logits that are no NaN; -infinity: all are.
double highest_of(std::span<const double> logits) {
  double highest = -std::numeric_limits<double>::infinity();
  for (const double value : logits) highest = value > highest ? value : highest;
  return highest;
}

/// As the confusion matrix counts: the first of the highest; 0 if all logits are NaN.
std::size_t predicted_class(std::span<const double> logits) {
  const auto found = std::find(logits.begin(), logits.end(), highest_of(logits));
  return found == logits.end() ? 0 : found - logits.begin();
}

}  // namespace

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += c;
    quoted += c;
  }
  return quoted + '"';
}

std::string csv_class_heads(const std::vector<std::string>& classes) {
  std::string text;
  for (const std::string& name : classes) text += ',' + csv_field("p(" + name + ")");
  return text;
}

std::string csv_probabilities(std::span<const double> probabilities) {
  std::string text;
  for (const double value : probabilities)
    text += std::isnan(value) ? ",nan" : fmt::format(",{:.6g}", value);
  return text;
}

std::vector<double> probabilities_of(std::span<const double> logits) {
  const double highest = highest_of(logits);
  std::vector<double> result(logits.size());
  double sum = 0;
  // The highest logit becomes 1, so that no exponential overflows.
  for (std::size_t i = 0; i < logits.size(); ++i)
    sum += result[i] = exponential(logits[i] - highest);
  for (double& value : result) value /= sum;
  return result;
}

void for_each_row(View logits, const std::function<void(std::span<const double>)>& look) {
  std::vector<double> row(logits.shape.row());
  dispatch(logits.type, [&]<class T>(T*) {
    const T* values = logits.as<T>();
    for (std::int64_t i = 0; i < logits.shape[0]; ++i) {
      for (double& value : row) value = static_cast<double>(static_cast<float>(*values++));
      look(row);
    }
  });
}

PredictionFile::PredictionFile(std::filesystem::path file, const Dataset& data,
                               std::vector<std::string> classes)
    : path_(std::move(file)), classes_(std::move(classes)) {
  const std::string heads = csv_class_heads(classes_);
  for (std::string& name : classes_) name = csv_field(name);
  if (path_.empty()) return;
  require_replaceable(path_);
  remove_stale_temporaries(path_.has_parent_path() ? path_.parent_path() : ".",
                           path_.filename().string());
  temporary_ = temporary_name(path_);
  file_.emplace(temporary_, OutputFile::Mode::create);
  try {
    file_->write(
        fmt::format("{},true,predicted{}\n", data.file(0).empty() ? "sample" : "file", heads));
  } catch (...) {
    // The destructor does not run for an object that was not constructed.
    ::unlink(temporary_.c_str());
    throw;
  }
}

PredictionFile::~PredictionFile() {
  if (file_) ::unlink(temporary_.c_str());
}

std::string PredictionFile::row(const Dataset& data, std::int64_t sample,
                                std::span<const double> logits) const {
  const std::string file = data.file(sample);
  return fmt::format("{},{},{}{}\n", file.empty() ? std::to_string(sample) : csv_field(file),
                     classes_[data.label(sample)], classes_[predicted_class(logits)],
                     csv_probabilities(probabilities_of(logits)));
}

void PredictionFile::append(const Comm& comm, const std::string& rows) {
  const std::vector<std::string> all = comm.gather(rows);
  agree(comm, [&] {
    // Ranks other than 0 have neither rows nor a file here.
    for (const std::string& some : all) file_->write(some);
  });
}

void PredictionFile::commit() {
  // The rows reach the disk before the name exists. After a crash the file is whole or absent.
  file_->sync();
  file_->close();
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail_to("write", path_, errno);
  file_.reset();
  sync_directory(path_.parent_path());
}

}  // namespace lockstep
