#include "apps/run/run_record.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "src/base/clock.h"
#include "src/base/machine.h"
#include "src/base/text.h"
#include "src/files/file.h"
#include "src/report/report.h"

namespace lockstep {
namespace {

using nlohmann::ordered_json;

std::filesystem::path summary_file(const Options& options) {
  return std::filesystem::path(options.run.folder) / "summary.json";
}

/// null: there was no such evaluation.
ordered_json to_json(const Accuracy& accuracy) {
  if (!accuracy.known()) return nullptr;
  return {{"top1", accuracy.top1}, {"step", accuracy.step}};
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
  } catch (const nlohmann::json::exception&) {  // there is none, or another program wrote it
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
  const ordered_json summary = {{"run", folder.filename().string()},
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
  replace_file(summary_file(options_),
               summary.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

}  // namespace lockstep
