// The registry of measures: what an evaluation measures, and how lines, tables and pages show it. A
// new measure is a function and its row in measures.cc. Measures are functions of integer counts,
// so they are the same on any number of ranks.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/evaluate/evaluation_result.h"
#include "src/base/table.h"

namespace lockstep {

/// Counts of a class. A share of no samples is 0.
struct ClassCounts {
  std::int64_t samples = 0, predicted = 0, right = 0;

  double precision() const { return share(right, predicted); }
  double recall() const { return share(right, samples); }
  double f1() const { return share(2 * right, samples + predicted); }

 private:
  static double share(std::int64_t part, std::int64_t all) {
    return all == 0 ? 0 : static_cast<double>(part) / static_cast<double>(all);
  }
};

/// By label.
std::vector<ClassCounts> class_counts(const EvaluationResult& result);

struct Measure {
  static constexpr std::string_view kind = "measure";
  enum Needs : std::uint8_t {
    score,         ///< sums over all samples; every line of an evaluation has the measure
    counts,        ///< of classes; a line has the measure if --best names it
    probabilities  ///< of classes; without EvaluationResult::probabilities it is NaN
  };

  std::string_view name;   ///< of --best
  std::string_view about;  ///< a noun phrase for the help of --best
  std::string_view field;  ///< in metrics.jsonl and evaluation.json
  std::string_view title;  ///< on the page, and in lines that always have the measure
  Needs needs;
  double (*value)(const EvaluationResult&);  ///< NaN: it is not known
  /// The measure is a number, and the lowest one is best. Others are shares up to 1.
  bool lower_is_better = false;
  bool chooses = true;  ///< --best may name it

  /// For tables: "21.03 %", or "1.8731".
  std::string text(double measured) const;
};

/// In the order of the fields in metrics.jsonl.
std::span<const Measure> measures();
/// For the page: a list of objects with name, field, title and lower_is_better.
nlohmann::ordered_json measures_json();

}  // namespace lockstep
