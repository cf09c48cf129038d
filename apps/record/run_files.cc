#include "apps/record/run_files.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>

#include "src/base/clock.h"
#include "src/base/text.h"
#include "src/data/image/thumbnail.h"
#include "src/files/file.h"
#include "src/files/folder_lock.h"
#include "src/report/report.h"
#include "src/report/run_page.h"
#include "src/report/stored_run.h"

// Several threads and ranks replace these files: the computing thread, the thread of the page, and
// any rank that ends the run. Each file is replaced as a whole. Another process may have the folder
// by then, so a late write compares its holder with the one at the start.
namespace lockstep {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMostPairs = 100;  ///< of confused classes

/// null: there was no such evaluation.
ordered_json to_json(const Accuracy& accuracy) {
  if (!accuracy.known()) return nullptr;
  return {{"top1", accuracy.top1}, {"step", accuracy.step}};
}

ordered_json to_json(const BestEvaluation& best) {
  ordered_json object = to_json(static_cast<const Accuracy&>(best));
  if (best.known()) object.update({{"by", best.by}, {"value", best.value}});
  return object;
}

/// The part of summary.json that a run which is complete already replaces too.
ordered_json end_of(const RunRecord& record, const RunPlan& plan) {
  ordered_json end{{"status", record.status},
                   {"step", record.step},
                   {"epoch", plan.epoch_at(record.step)},
                   {kWeightsField, record.weights},
                   {"best", to_json(record.progress.best)},
                   {"test", to_json(record.progress.tested)}};
  if (record.weights.empty()) end[kWeightsField] = nullptr;
  if (!record.reason.empty()) end["reason"] = record.reason;
  return end;
}

/// A number that is null if it is NaN.
ordered_json number(double value) {
  return std::isnan(value) ? ordered_json() : ordered_json(value);
}

/// For each class of `result`: `value` of its counts.
ordered_json by_class(const EvaluationResult& result, const auto& value) {
  ordered_json list = ordered_json::array();
  for (const ClassCounts& counts : class_counts(result)) list.push_back(std::invoke(value, counts));
  return list;
}

/// The measures that compare classes, and those of each class.
ordered_json class_measures(const EvaluationResult& result) {
  ordered_json object;
  for (const Measure& measure : measures())
    if (measure.needs != Measure::score) object[measure.field] = number(measure.value(result));
  ordered_json auc;  // null: probabilities were not counted
  for (int c = 0; result.probabilities && c < result.classes(); ++c)
    auc.push_back(number(result.probabilities->auc(c)));
  object.update({{"precision_by_class", by_class(result, &ClassCounts::precision)},
                 {"recall_by_class", by_class(result, &ClassCounts::recall)},
                 {"f1_by_class", by_class(result, &ClassCounts::f1)},
                 {"auc_by_class", auc}});
  return object;
}

/// For each class the points of its precision-recall curve, [right, wrong]; null: there are none.
ordered_json curves_json(const EvaluationResult& result) {
  constexpr int kMostPoints = 50;
  ordered_json curves;
  for (int c = 0; result.probabilities && c < result.classes(); ++c) {
    ordered_json points = ordered_json::array();
    for (const CurvePoint& point : result.probabilities->curve(c, kMostPoints))
      points.push_back({point.right, point.wrong});
    curves.push_back(std::move(points));
  }
  return curves;
}

/// The classes that are confused most often: [label, prediction, samples].
ordered_json confused_pairs(const std::vector<std::int64_t>& confusion, std::size_t classes) {
  std::vector<std::size_t> cells;
  for (std::size_t i = 0; i < confusion.size(); ++i)
    if (confusion[i] > 0 && i / classes != i % classes) cells.push_back(i);
  // Stable, so that equal counts keep the order of the classes on every machine.
  std::ranges::stable_sort(cells, std::greater(), [&](std::size_t i) { return confusion[i]; });
  cells.resize(std::min(cells.size(), kMostPairs));
  ordered_json list = ordered_json::array();
  for (const std::size_t i : cells) list.push_back({i / classes, i % classes, confusion[i]});
  return list;
}

ordered_json rows_of(const std::vector<std::int64_t>& confusion, std::size_t classes) {
  ordered_json rows;
  for (std::size_t i = 0; i < confusion.size(); ++i) rows[i / classes].push_back(confusion[i]);
  return rows;
}

ordered_json to_json(const Mistake& mistake, const Dataset& data) {
  constexpr std::int64_t kEdge = 64;  // pixels
  Thumbnail picture;
  try {
    picture = thumbnail_of(data, mistake.sample, kEdge);
  } catch (const Error&) {  // the table is worth more than one picture
  }
  return {{"sample", mistake.sample},
          {"file", data.file(mistake.sample)},
          {"label", mistake.label},
          {"predicted", mistake.predicted},
          {"loss", mistake.loss},
          {"probability", mistake.probability},
          {"size", picture.size},
          {"image", picture.data_uri},
          {"text", data.excerpt(mistake.sample)}};
}

/// Why lockstep_run started these ranks, as summary.json and metrics.jsonl have it; null: it did
/// not, or it is the first start. `seconds`: from the failure until training began again.
ordered_json change_of_ranks(const RunPlan& plan, std::int64_t ranks) {
  const char *const what = std::getenv("LOCKSTEP_CHANGE"), *const at =
                                                               std::getenv("LOCKSTEP_CHANGED_AT");
  if (what == nullptr || at == nullptr) return nullptr;
  return {{"step", plan.start.step},
          {"change", one_line(what)},
          {"ranks", ranks},
          {"seconds", std::max(0.0, wall_time() - std::strtod(at, nullptr))},
          {"at", timestamp()}};
}

/// summary.json; null: there is none, or it is damaged.
ordered_json summary_in(const std::filesystem::path& folder) {
  return object_in(read_file(folder / kSummaryFile).value_or(""));
}

void write_report_in(const std::filesystem::path& folder) {
  write_page(folder / kReportFile, report_page(measures_json(), read_run(folder)));
}

/// Changes summary.json of run `run` and its page, if `change` of the object returns true. Throws
/// std::exception if there is no such file.
void rewrite(const std::filesystem::path& folder, const std::string& run,
             const std::function<bool(ordered_json&)>& change) {
  ordered_json summary = summary_in(folder);
  if (summary.at("id") != run || !change(summary)) return;
  summary.at("times").at("written") = timestamp();
  replace_file(folder / kSummaryFile, json_text(summary, 2) + "\n");
  write_report_in(folder);
}

}  // namespace

RunFiles::RunFiles(const std::string& folder, const RunFacts& facts, const RunPlan& plan)
    : folder_(folder),
      facts_(facts),
      plan_(plan),
      holder_(folder.empty() ? "" : FolderLock::holder(folder)) {}

void RunFiles::begin(const Options& options) {
  if (folder_.empty()) return;
  start_ = now_seconds();
  began_ = timestamp();
  try {
    // Times and changes go on over all starts of a run. Another run that was in the folder does not
    // count.
    const ordered_json before = summary_in(folder_);
    if (before.at("id") == facts_.text("id")) {
      before.at("times").at("began").get_to(began_);
      before.at("times").at("seconds").get_to(seconds_before_);
      if (before.contains("changes")) changes_ = before.at("changes");
    }
  } catch (const std::exception&) {  // there is none, or it cannot be read or is damaged
  }
  change_ = change_of_ranks(plan_, facts_.number("ranks"));
  if (!change_.is_null()) changes_.push_back(change_);
  const ScheduleOptions& s = options.schedule;
  std::string text = fmt::format("# All options of this run; --config reads them.\n# {}\n{}",
                                 facts_.text("command"), options.text(plan_.global_batch));
  // As values they would fix what the user left open, also on other numbers of ranks.
  const auto add = [&](bool open, const char* name, std::int64_t value) {
    if (open) text += fmt::format("# {}={} (default)\n", name, value);
  };
  add(s.steps == 0 && s.epochs == 0, "steps", plan_.steps);
  add(s.batch == 0 && s.global_batch == 0, "global-batch", plan_.global_batch);
  add(s.shards == 0 && s.accumulate == 1, "shards", plan_.shards);
  if (!options.model.network.empty()) replace_file(folder_ / kNetworkFile, options.model.network);
  replace_file(folder_ / kConfigFile, text);
}

void RunFiles::write(const RunRecord& record) const {
  if (began_.empty()) return;
  ordered_json summary{{"run", folder_.filename().string()}}, result = to_json(record.last);
  if (record.last.known()) result["loss"] = record.last_loss;
  summary.update(end_of(record, plan_));
  summary["result"] = result;
  summary["times"] = {{"began", began_},
                      {"written", timestamp()},
                      {"seconds", seconds_before_ + now_seconds() - start_},
                      {"training_seconds_since_start", record.train_seconds},
                      {"images_per_s", record.images_per_s}};
  if (!changes_.is_null()) summary["changes"] = changes_;
  summary.update(facts_.values());
  replace_file(folder_ / kSummaryFile, json_text(summary, 2) + "\n");
}

std::optional<RunFacts> stored_facts(const std::filesystem::path& folder) {
  const auto text = read_file(folder / kSummaryFile);
  const auto facts = RunFacts::read(text.value_or(""));
  if (facts && facts->has("options")) return facts;
  // A damaged file may be one that another program is still writing. Then it is no reason to begin
  // a new run in its place.
  if (text) require_no_writer(folder / kSummaryFile);
  return {};
}

void RunFiles::failed(const std::string& error, const std::string& program) const noexcept {
  if (folder_.empty()) return;
  try {
    rewrite(folder_, facts_.text("id"), [&](ordered_json& summary) {
      // Only a running run becomes a failed one. A rank that dies late must not change the status
      // of a complete run, or of the next start.
      const std::string holder = FolderLock::holder(folder_);  // empty: rank 0 is dead
      if (summary.at("status") != "running" || (!holder.empty() && holder != holder_)) return false;
      std::string reason = error.substr(0, error.find('\n'));
      if (reason.starts_with(program + ": ")) reason.erase(0, program.size() + 2);
      summary["status"] = "failed";
      summary["reason"] = reason;
      return true;
    });
  } catch (...) {  // the error itself is on stderr
  }
}

void RunFiles::complete(const RunRecord& record, const Options& options) {
  if (folder_.empty()) return;
  try {
    rewrite(folder_, facts_.text("id"), [&](ordered_json& summary) {
      if (summary.at("status") == record.status) return false;
      summary.erase("reason");
      summary.update(end_of(record, plan_));
      return true;
    });
  } catch (const nlohmann::json::exception&) {  // there is no summary.json, or it is damaged
    begin(options);
    write(record);
    write_report();
  }
}

void RunFiles::write(const Evaluated& evaluated, const std::vector<std::string>& names,
                     const std::string& set, const std::string& about) const {
  if (began_.empty()) return;
  const EvaluationResult& result = evaluated.result;
  const std::size_t classes = names.size();
  ordered_json mistakes = ordered_json::array();
  for (const Mistake& mistake : result.mistakes)
    mistakes.push_back(to_json(mistake, evaluated.data));
  const ordered_json object = {
      {"set", set},
      {"about", about},
      {"step", evaluated.step},
      {"samples", result.score.samples},
      {"classes", names},
      {"per_class", by_class(result,
                             [](auto& c) {
                               return std::vector{c.samples, c.predicted, c.right};
                             })},
      {"measures", class_measures(result)},
      {"curves", curves_json(result)},
      {"pairs", confused_pairs(result.confusion, classes)},
      {"confusion", classes > kMostInMatrix ? ordered_json() : rows_of(result.confusion, classes)},
      {"mistakes", std::move(mistakes)}};
  replace_file(folder_ / "evaluation.json", json_text(object) + "\n");
}

void RunFiles::write_report() const {
  if (began_.empty() || FolderLock::holder(folder_) != holder_) return;
  write_report_in(folder_);
}

void RunFiles::write_live_report(std::int64_t step, double next) const {
  const StoredRun run = read_run(folder_);
  const std::string page = report_page(measures_json(), run,
                                       LiveRun{.step = static_cast<double>(step),
                                               .seconds = seconds_before_ + now_seconds() - start_,
                                               .next = next});
  // A rank may have ended the run meanwhile, and then has written the last page.
  const bool ended = summary_in(folder_) != run.summary;
  if (!ended && FolderLock::holder(folder_) == holder_) write_page(folder_ / kReportFile, page);
}

}  // namespace lockstep
