#include "apps/audit/fields.h"

#include <algorithm>
#include <iterator>

#include "apps/evaluate/measures.h"

namespace lockstep {
namespace {

constexpr Check kNone = Check::none;

// The first row that fits a field counts, so those of all groups come first.
constexpr Fields kTable[] = {
    {"*", "time", kNone, "times"},
    {"*", "weights_sha256"},
    {"train", "epoch loss penalty batch_top1 learning_rate"},
    {"train", "images_per_s seconds_per_batch exposed_communication loader_wait", kNone, "speeds"},
    {"train", "forward backward optimizer straggler straggler_seconds", kNone, "speeds"},
    {"evaluation test", "epoch samples MEASURES"},
    {"epoch", "epoch val_loss val_acc val_top5"},
    {"epoch", "loss acc", Check::mean},
    {"epoch", "seconds", kNone, "times"},
    {"host", "epoch cores_* bytes_* received_per_s_* sent_per_s_*", kNone, "hosts"},
    {"shares", "rank_*", kNone, "shares of ranks"},
    {"change", "change ranks seconds at", kNone, "shares of ranks"},
    {"summary", "best test status reason"},
    {"summary", "step result", kNone, ""},  // fields of other groups have their values
    {"summary", "interruption", kNone, "why the run stopped"},
    {"summary", "changes", kNone, "shares of ranks"},
    {"summary", "times", kNone, "times"},
    {"result", "top1 step loss", kNone, ""},
    {"times", "began written seconds training_seconds_since_start images_per_s", kNone, "times"},
    {"summary", "run", kNone, "names of folders"},
    {"classes", "set about step samples classes per_class measures curves pairs confusion"},
    {"classes", "mistakes"},
    {"state", "parameters optimizer ema wire names"},
    {"state", "step samples epoch seed model vocabulary residuals"},
    {"progress", "evaluation_due accuracy since_best best tested"},
    {"state", "waiting_lines", kNone, ""},
    {"fact", "program dataset model network precision statistics class_weights files words"},
    {"fact", "sample_format normalisation class_names"},
    // All files of a start must agree on these. The replay has the options of the start.
    {"fact", "id parent began", kNone, "ids"},
    {"fact", "command commands data", kNone, "commands"},
    {"fact", "options changed_options recipe_options", kNone, "options without effect"},
    {"fact", "steps seed global_batch shards threads", kNone, "options without effect"},
    {"fact", "version compiler libraries", kNone, "versions"},
    {"fact", "arithmetic device memory compute", kNone, "processors"},
    {"fact", "host hosts placement", kNone, "hosts"},
    {"fact", "ranks all_threads sums communication", kNone, "ranks"},
};

/// `names`: as in Fields.
bool contains(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const std::string_view one = names.substr(0, names.find(' '));
    const std::size_t star = one.find('*');  // npos: the whole name
    if (one.substr(0, star) == name.substr(0, star)) return true;
    if (one == "MEASURES" && std::ranges::count(measures(), name, &Measure::field) > 0) return true;
    names.remove_prefix(std::min(one.size() + 1, names.size()));
  }
  return false;
}

}  // namespace

const Fields* find_field(std::string_view group, std::string_view name) {
  const Fields* const found = std::ranges::find_if(kTable, [&](const Fields& row) {
    return contains(row.group, group) && contains(row.names, name);
  });
  return found == std::end(kTable) ? nullptr : found;
}

}  // namespace lockstep
