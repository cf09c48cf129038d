// The table of all fields that verify_run meets in a run: metrics.jsonl, summary.json,
// evaluation.json and the checkpoints. A field without a row counts as a fault of the run, so that
// none is believed unchecked.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

/// The check of a field.
enum class Check : std::uint8_t {
  replay,  ///< equal in all files of the run, and in the replay
  mean,    ///< of an epoch: the mean of its replayed steps
  none,    ///< no replay can repeat it
};

/// Fields that are checked alike.
struct Fields {
  /// "train": of lines of this kind in metrics.jsonl. "summary" and "classes": of summary.json and
  /// evaluation.json. "result" and "times": of these objects in summary.json. "state": groups of
  /// arrays and attributes of a checkpoint. "fact": facts of the run, in whichever file. *: any.
  std::string_view group;
  /// Separated by spaces; "rank_*": all that begin like this; MEASURES: the fields of all measures.
  std::string_view names;
  Check check = Check::replay;
  std::string_view topic = {};  ///< of Check::none, for the verdict: "speeds"
};

/// The row of the field `name` of `group`; null: there is none. Any thread.
const Fields* find_field(std::string_view group, std::string_view name);

}  // namespace lockstep
