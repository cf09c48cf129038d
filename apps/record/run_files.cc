#include "apps/record/run_files.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>

#include "apps/evaluate/measures.h"
#include "src/base/clock.h"
#include "src/base/text.h"
#include "src/data/image/thumbnail.h"
#include "src/files/file.h"
#include "src/files/folder_lock.h"
#include "src/report/report.h"
#include "src/report/run_page.h"
#include "src/report/stored_run.h"

namespace lockstep {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMostPairs = 100;  ///< of confused classes

std::string text_of(const ordered_json& summary) {
  return summary.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

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

/// null: the hash is not known.
ordered_json weights_json(const RunRecord& record) {
  return record.weights.empty() ? ordered_json() : ordered_json(record.weights);
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

/// Why lockstep_run started these ranks, as summary.json and metrics.jsonl have it; empty: it did
/// not, or it is the first start. `seconds`: from the failure until training began again.
std::string change_of_ranks(const RunPlan& plan, std::int64_t ranks) {
  const char *const what = std::getenv("LOCKSTEP_CHANGE"), *const at =
                                                               std::getenv("LOCKSTEP_CHANGED_AT");
  if (what == nullptr || at == nullptr) return "";
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return ordered_json{{"step", plan.start.step},
                      {"change", one_line(what)},
                      {"ranks", ranks},
                      {"seconds", std::max(0.0, now.count() - std::strtod(at, nullptr))},
                      {"at", timestamp()}}
      .dump();
}

/// Changes summary.json of run `run` and its page, if `change` of the object returns true. Throws
/// std::exception if there is no such file.
void rewrite(const std::filesystem::path& folder, const std::string& run,
             const std::function<bool(ordered_json&)>& change) {
  const std::filesystem::path file = folder / kSummaryFile;
  ordered_json summary = object_in(read_file(file).value_or(""));
  if (summary.at("id") != run || !change(summary)) return;
  summary.at("times").at("written") = timestamp();
  replace_file(file, text_of(summary));
  write_page(folder / kReportFile, report_page(measures_json(), read_run(folder)));
}

}  // namespace

void RunFiles::begin(const Options& options) {
  if (folder_.empty()) return;
  start_ = now_seconds();
  began_ = timestamp();
  holder_ = FolderLock::holder(folder_);
  ordered_json changes = ordered_json::array();
  try {
    const ordered_json before = object_in(read_file(folder_ / kSummaryFile).value_or(""));
    if (before.at("id") == facts_.text("id")) {
      before.at("times").at("began").get_to(began_);
      before.at("times").at("seconds").get_to(seconds_before_);
      if (before.contains("changes")) changes = before.at("changes");
    }
  } catch (const std::exception&) {  // there is none, or it cannot be read or is damaged
  }
  change_ = change_of_ranks(plan_, facts_.number("ranks"));
  if (!change_.empty()) changes.push_back(ordered_json::parse(change_));
  if (!changes.empty()) changes_ = changes.dump();
  const ScheduleOptions& s = options.schedule;
  std::string text = fmt::format("# All options of this run; --config reads them.\n# {}\n{}",
                                 facts_.text("command"), options.text(plan_.global_batch));
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
  const RunProgress& progress = record.progress;
  ordered_json result = to_json(record.last);
  if (record.last.known()) result["loss"] = record.last_loss;
  ordered_json summary = {{"run", folder_.filename().string()},
                          {"status", record.status},
                          {"step", record.step},
                          {"epoch", plan_.epoch_at(record.step)},
                          {kWeightsField, weights_json(record)},
                          {"result", result},
                          {"best", to_json(progress.best)},
                          {"test", to_json(progress.tested)},
                          {"times",
                           {{"began", began_},
                            {"written", timestamp()},
                            {"seconds", seconds_before_ + now_seconds() - start_},
                            {"training_seconds_since_start", record.train_seconds},
                            {"images_per_s", record.images_per_s}}}};
  if (!record.reason.empty()) summary["reason"] = record.reason;
  if (!changes_.empty()) summary["changes"] = ordered_json::parse(changes_);
  summary.update(facts_.values());
  replace_file(folder_ / kSummaryFile, text_of(summary));
}

std::optional<RunFacts> stored_facts(const std::filesystem::path& folder) {
  const auto text = read_file(folder / kSummaryFile);
  const auto facts = RunFacts::read(text.value_or(""));
  if (facts && facts->has("options")) return facts;
  if (text) require_no_writer(folder / kSummaryFile);
  return {};
}

FailureRecord::FailureRecord(const std::string& folder, std::string program, std::string run)
    : folder_(folder), program_(std::move(program)), run_(std::move(run)) {
  if (!folder_.empty()) holder_ = FolderLock::holder(folder_);
}

void FailureRecord::write(const std::string& error) const noexcept {
  if (folder_.empty()) return;
  try {
    rewrite(folder_, run_, [&](ordered_json& summary) {
      const std::string holder = FolderLock::holder(folder_);  // empty: rank 0 is dead
      if (summary.at("status") != "running" || (!holder.empty() && holder != holder_)) return false;
      std::string reason = error.substr(0, error.find('\n'));
      if (reason.starts_with(program_ + ": ")) reason.erase(0, program_.size() + 2);
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
      summary["status"] = record.status;
      summary.erase("reason");
      if (!record.reason.empty()) summary["reason"] = record.reason;
      summary["step"] = record.step;
      summary["epoch"] = plan_.epoch_at(record.step);
      summary[kWeightsField] = weights_json(record);
      summary["best"] = to_json(record.progress.best);
      summary["test"] = to_json(record.progress.tested);
      return true;
    });
  } catch (const nlohmann::json::exception&) {  // there is no summary.json, or it is damaged
    begin(options);
    write(record);
    write_report();
  }
}

void RunFiles::write(const EvaluatedClasses& evaluated) const {
  if (began_.empty()) return;
  const EvaluationResult& result = evaluated.result;
  const std::size_t classes = evaluated.classes.size();
  ordered_json mistakes = ordered_json::array();
  for (const Mistake& mistake : result.mistakes)
    mistakes.push_back(to_json(mistake, evaluated.data));
  const ordered_json object = {
      {"set", evaluated.set},
      {"about", evaluated.about},
      {"step", evaluated.step},
      {"samples", result.score.samples},
      {"classes", evaluated.classes},
      {"per_class", by_class(result,
                             [](auto& c) {
                               return std::vector{c.samples, c.predicted, c.right};
                             })},
      {"measures", class_measures(result)},
      {"curves", curves_json(result)},
      {"pairs", confused_pairs(result.confusion, classes)},
      {"confusion", classes > kMostInMatrix ? ordered_json() : rows_of(result.confusion, classes)},
      {"mistakes", std::move(mistakes)}};
  replace_file(folder_ / "evaluation.json",
               object.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

void RunFiles::write_report() const {
  if (began_.empty() || FolderLock::holder(folder_) != holder_) return;
  write_page(folder_ / kReportFile, report_page(measures_json(), read_run(folder_)));
}

void RunFiles::write_live_report(std::int64_t step, double next) const {
  const StoredRun run = read_run(folder_);
  const std::string page = report_page(measures_json(), run,
                                       LiveRun{.step = static_cast<double>(step),
                                               .seconds = seconds_before_ + now_seconds() - start_,
                                               .next = next});
  // A rank may have ended the run meanwhile, and then has written the last page.
  const bool ended = object_in(read_file(folder_ / kSummaryFile).value_or("")) != run.summary;
  if (!ended && FolderLock::holder(folder_) == holder_) write_page(folder_ / kReportFile, page);
}

}  // namespace lockstep
