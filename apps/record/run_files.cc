#include "apps/record/run_files.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "src/base/clock.h"
#include "src/base/machine.h"
#include "src/base/text.h"
#include "src/data/image/thumbnail.h"
#include "src/files/file.h"
#include "src/files/folder_lock.h"
#include "src/report/report.h"
#include "src/report/run_page.h"

namespace lockstep {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMostInMatrix = 100;  ///< classes
constexpr std::size_t kMostPairs = 100;     ///< of confused classes

std::filesystem::path summary_file(const Options& options) {
  return std::filesystem::path(options.run.folder) / kSummaryFile;
}

std::string text_of(const ordered_json& summary) {
  return summary.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

/// null: there was no such evaluation.
ordered_json to_json(const Accuracy& accuracy) {
  if (!accuracy.known()) return nullptr;
  return {{"top1", accuracy.top1}, {"step", accuracy.step}};
}

ordered_json to_json(const RunFacts& facts, const Options& options) {
  ordered_json memory = ordered_json::object();
  for (const auto& [part, bytes] : facts.memory) memory[part] = bytes;
  ordered_json buckets = nullptr;
  if (!facts.buckets.empty()) {
    const auto [least, most] = std::minmax_element(facts.buckets.begin(), facts.buckets.end());
    buckets = {
        {"count", facts.buckets.size()}, {"smallest_bytes", *least}, {"largest_bytes", *most}};
  }
  return {{"device", facts.device},
          {"libraries", facts.libraries},
          {"data", facts.data},
          {"hosts", facts.hosts},
          {"placement", facts.places},
          {"memory", std::move(memory)},
          {"communication",
           {{"reducer", facts.reducer},
            {"progress", facts.progress},
            {"order", facts.order},
            {"buckets", std::move(buckets)}}},
          {"compute", {{"parameters", facts.parameters}, {"gflop_per_step_and_rank", facts.gflop}}},
          {"changed_options", options.changed},
          {"commands", {{"resume", options.resume_command}, {"repeat", options.repeat_command}}}};
}

/// Three counts for each class: its samples, those that are taken for it, and those of both.
ordered_json class_counts(const std::vector<std::int64_t>& confusion, std::size_t classes) {
  ordered_json list = ordered_json::array();
  for (std::size_t i = 0; i < classes; ++i) {
    std::int64_t samples = 0, predicted = 0;
    for (std::size_t other = 0; other < classes; ++other) {
      samples += confusion[i * classes + other];
      predicted += confusion[other * classes + i];
    }
    list.push_back({samples, predicted, confusion[i * classes + i]});
  }
  return list;
}

/// The classes that are confused most often: [label, prediction, samples].
ordered_json confused_pairs(const std::vector<std::int64_t>& confusion, std::size_t classes) {
  std::vector<std::size_t> cells;
  for (std::size_t i = 0; i < confusion.size(); ++i)
    if (confusion[i] > 0 && i / classes != i % classes) cells.push_back(i);
  std::stable_sort(cells.begin(), cells.end(),
                   [&](std::size_t a, std::size_t b) { return confusion[a] > confusion[b]; });
  cells.resize(std::min(cells.size(), kMostPairs));
  ordered_json list = ordered_json::array();
  for (const std::size_t i : cells) list.push_back({i / classes, i % classes, confusion[i]});
  return list;
}

ordered_json rows_of(const std::vector<std::int64_t>& confusion, std::size_t classes) {
  ordered_json rows = ordered_json::array();
  for (std::size_t i = 0; i < classes; ++i) {
    const auto begin = confusion.begin() + static_cast<std::ptrdiff_t>(i * classes);
    rows.push_back(std::vector<std::int64_t>(begin, begin + static_cast<std::ptrdiff_t>(classes)));
  }
  return rows;
}

ordered_json to_json(const Mistake& mistake, const Dataset& data) {
  constexpr std::int64_t kEdge = 64;  // pixels
  Thumbnail picture;
  try {
    picture = thumbnail_of(data, mistake.sample, kEdge);
  } catch (const Error&) {  // the table is worth more than one picture
  }
  return {{"sample", mistake.sample},           {"label", mistake.label},
          {"predicted", mistake.predicted},     {"loss", mistake.loss},
          {"probability", mistake.probability}, {"size", picture.size},
          {"image", picture.data_uri}};
}

/// Changes summary.json of run `run` and its page, if `change` of the object returns true. Throws
/// std::exception if there is no such file.
void rewrite(const std::filesystem::path& folder, const std::string& log_dir,
             const std::string& run, const std::function<bool(ordered_json&)>& change) {
  const std::filesystem::path file = folder / kSummaryFile;
  std::ifstream in(file);
  ordered_json summary = ordered_json::parse(in);
  if (summary.at("id") != run || !change(summary)) return;
  summary.at("times").at("written") = timestamp();
  replace_file(file, text_of(summary));
  write_page(folder / kReportFile, report_page(read_run(folder, log_dir)));
}

}  // namespace

void RunRecordFiles::begin() {
  if (options_.run.folder.empty()) return;
  start_ = now_seconds();
  began_ = timestamp();
  std::ifstream in(summary_file(options_));
  try {
    const auto before = nlohmann::json::parse(in);
    if (before.at("id") == plan_.run) {
      before.at("times").at("began").get_to(began_);
      before.at("times").at("seconds").get_to(seconds_before_);
    }
  } catch (const std::exception&) {  // there is none, it is a folder, or another program wrote it
  }
  const ScheduleOptions& s = options_.schedule;
  std::string text = fmt::format("# All options of this run; --config reads them.\n# {}\n{}",
                                 options_.command, options_.text);
  const auto add = [&](bool open, const char* name, std::int64_t value) {
    if (open) text += fmt::format("# {}={} (default)\n", name, value);
  };
  add(s.steps == 0 && s.epochs == 0, "steps", plan_.steps);
  add(s.batch == 0 && s.global_batch == 0, "global-batch", plan_.global_batch);
  add(s.shards == 0 && s.accumulate == 1, "shards", plan_.shards);
  const std::filesystem::path folder = options_.run.folder;
  if (!options_.model.network.empty()) replace_file(folder / kNetworkFile, options_.model.network);
  replace_file(folder / kConfigFile, text);
}

void RunRecordFiles::write(const RunRecord& record) const {
  if (began_.empty()) return;
  const RunProgress& progress = record.progress;
  ordered_json result = to_json(record.last);
  if (record.last.known()) result["loss"] = record.last_loss;
  const std::filesystem::path folder = options_.run.folder;
  ordered_json summary = {{"run", folder.filename().string()},
                          {"id", plan_.run},
                          {"status", record.status},
                          {"program", options_.program},
                          {"command", options_.command},
                          {"dataset", options_.data.dataset},
                          {"model", options_.model.name},
                          {"step", record.step},
                          {"steps", plan_.steps},
                          {"epoch", plan_.epoch_at(record.step)},
                          {"result", result},
                          {"best", to_json(progress.best)},
                          {"test", to_json(progress.tested)},
                          {"times",
                           {{"began", began_},
                            {"written", timestamp()},
                            {"seconds", seconds_before_ + now_seconds() - start_},
                            {"training_seconds_since_start", record.train_seconds},
                            {"images_per_s", record.images_per_s}}},
                          {"versions", {{"lockstep", build_name()}}},
                          {"host", host_name()},
                          {"ranks", ranks_},
                          {"threads", plan_.threads},
                          {"global_batch", plan_.global_batch},
                          {"shards", plan_.shards},
                          {"seed", plan_.seed}};
  summary.update(to_json(facts_, options_));
  replace_file(summary_file(options_), text_of(summary));
}

std::optional<RecordedShape> recorded_shape(const std::filesystem::path& folder) {
  std::ifstream in(folder / kSummaryFile);
  try {
    const auto summary = nlohmann::json::parse(in);
    return RecordedShape{summary.at("global_batch"), summary.at("shards")};
  } catch (const std::exception&) {
    return {};
  }
}

FailureRecord::FailureRecord(const Options& options, std::string run)
    : folder_(options.run.folder),
      log_dir_(options.reports.log_dir),
      program_(options.program),
      run_(std::move(run)) {
  if (!folder_.empty()) holder_ = FolderLock::holder(folder_);
}

void FailureRecord::write(const std::string& error) const noexcept {
  if (folder_.empty()) return;
  try {
    rewrite(folder_, log_dir_, run_, [&](ordered_json& summary) {
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

void RunRecordFiles::complete(const RunRecord& record) {
  if (options_.run.folder.empty()) return;
  try {
    rewrite(options_.run.folder, options_.reports.log_dir, plan_.run, [&](ordered_json& summary) {
      if (summary.at("status") == record.status) return false;
      summary["status"] = record.status;
      summary.erase("reason");
      summary["step"] = record.step;
      summary["epoch"] = plan_.epoch_at(record.step);
      summary["best"] = to_json(record.progress.best);
      summary["test"] = to_json(record.progress.tested);
      return true;
    });
  } catch (const nlohmann::json::exception&) {  // there is no summary.json, or it is damaged
    begin();
    write(record);
    write_report(/*may_skip=*/false);
  }
}

void RunRecordFiles::write(const EvaluatedClasses& evaluated) const {
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
      {"per_class", class_counts(result.confusion, classes)},
      {"pairs", confused_pairs(result.confusion, classes)},
      {"confusion", classes > kMostInMatrix ? ordered_json() : rows_of(result.confusion, classes)},
      {"mistakes", std::move(mistakes)}};
  replace_file(std::filesystem::path(options_.run.folder) / "evaluation.json",
               object.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

void RunRecordFiles::write_report(bool may_skip) {
  constexpr double kShare = 0.01;
  if (began_.empty()) return;
  const double start = now_seconds();
  if (may_skip && start - page_time_ < page_seconds_ / kShare) return;
  const std::filesystem::path folder = options_.run.folder;
  write_page(folder / kReportFile, report_page(read_run(folder, options_.reports.log_dir)));
  page_time_ = now_seconds();
  page_seconds_ = page_time_ - start;
}

}  // namespace lockstep
