#include "src/report/stored_run.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <limits>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/files/file.h"

namespace lockstep {
namespace {

// The files may be of a run that still writes, was killed, or comes from another version or another
// person. So each part is read for itself, and damaged parts are absent. Only a file that cannot be
// read now is an error.
namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kMostColumns = 100;  // of a kind of rows; a column holds all rows

/// The object in a file; null: there is none, or it is damaged.
ordered_json read_object(const fs::path& file) {
  const auto text = read_file(file);
  ordered_json object = object_in(text.value_or(""));
  if (text && object.is_null()) require_no_writer(file);
  return object;
}

/// The options of config.toml, with those of "# steps=1000 (default)".
std::vector<std::pair<std::string, std::string>> options_of(const std::string& config) {
  constexpr std::string_view kComment = "# ", kDefault = " (default)";
  std::string text;
  for (std::string line : lines_of(config)) {
    const bool comment = line.starts_with('#');
    if (comment && (!line.starts_with(kComment) || !line.ends_with(kDefault))) continue;
    if (comment)
      line = line.substr(kComment.size(), line.size() - kComment.size() - kDefault.size());
    text += line + "\n";
  }
  return named_values(text);
}

/// The number at `path` in `object`, such as "/times/seconds"; NaN: there is none.
template <class Json>
double number(const Json& object, const char* path) {
  const typename Json::json_pointer at(path);
  const bool found = object.contains(at) && object.at(at).is_number();
  return found ? object.at(at).template get<double>() : kNaN;
}

void add_row(const nlohmann::json& object, MetricRows& rows) {
  for (const auto& [name, value] : object.items()) {
    const bool more = rows.columns.size() < kMostColumns || rows.columns.contains(name);
    if (name == "kind" || !more) continue;
    auto& column = rows.columns[name];
    // Rows of one kind may have different members. Earlier rows without this one have NaN.
    column.resize(rows.count, kNaN);
    column.push_back(value.is_number() ? value.get<double>() : kNaN);
  }
  ++rows.count;
}

void read_metrics(const fs::path& file, StoredRun& run) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return;
  std::ifstream in(file, std::ios::binary);
  double last = kNaN, paused = 0;  // the time of the last row, and the seconds between starts
  for (std::string line; std::getline(in, line);) {
    nlohmann::json object = nlohmann::json::parse(line, nullptr, /*exceptions=*/false);
    const std::string kind = text_in(object, "/kind");
    if (kind.empty()) continue;
    if (const double time = number(object, "/time"); !std::isnan(time)) {
      // A line of kind "run" begins a start. The time since the line before it was no training.
      if (kind == "run" && time > last) paused += time - last;
      last = run.last_sign = time;
      object["time"] = last - paused;
    }
    if (kind != "run") {
      add_row(object, run.rows[kind]);
      continue;
    }
    run.start = object_in(line);
    const ordered_json options = run.start["options"];
    run.start.erase("options");
    if (!options.is_object()) continue;
    run.options.clear();
    for (const auto& [name, value] : options.items())
      run.options.emplace_back(name, json_text(value));
  }
  if (!in.is_open() || in.bad()) fail_to_read(file, errno);
}

double median(std::vector<double> values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  if (values.empty()) return kNaN;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

ordered_json object_in(const std::string& text) {
  constexpr int kDeepest = 32;  // values within others; copies and dump() recurse
  const auto keep = [](int depth, ordered_json::parse_event_t, const ordered_json&) {
    return depth <= kDeepest;
  };
  ordered_json object = ordered_json::parse(text, keep, /*exceptions=*/false);
  return object.is_object() ? object : ordered_json();
}

std::string json_text(const ordered_json& value, int indent) {
  return value.dump(indent, ' ', false, ordered_json::error_handler_t::replace);
}

double MetricRows::at(const std::string& name, std::size_t row) const {
  const auto column = columns.find(name);
  return column == columns.end() || row >= column->second.size() ? kNaN : column->second[row];
}

double MetricRows::last(const std::string& name) const {
  for (std::size_t row = count; row-- > 0;)
    if (const double value = at(name, row); !std::isnan(value)) return value;
  return kNaN;
}

std::string StoredRun::option(const std::string& name) const {
  for (const auto& [option, value] : options) {
    if (option != name) continue;
    const bool quoted = value.size() > 1 && value.front() == '"' && value.back() == '"';
    return quoted ? value.substr(1, value.size() - 2) : value;
  }
  return "";
}

const MetricRows& StoredRun::of(const std::string& kind) const {
  static const MetricRows none;
  const auto found = rows.find(kind);
  return found == rows.end() ? none : found->second;
}

ordered_json number_json(double value) {
  constexpr double kExact = 9007199254740992.0;  // 2^53: below it doubles hold every whole number
  if (!std::isfinite(value)) return nullptr;
  const bool minus_zero = value == 0 && std::signbit(value);
  if (value == std::floor(value) && std::abs(value) < kExact && !minus_zero)
    return static_cast<std::int64_t>(value);
  return value;
}

ordered_json results_of(const StoredRun& run) {
  const ordered_json& summary = run.summary;
  const MetricRows &train = run.of("train"), &evaluation = run.of("evaluation");
  // A run that still trains, or was killed, has no summary. Then its rows give the results.
  double best = kNaN, best_step = kNaN;
  for (std::size_t i = 0; i < evaluation.count; ++i) {
    const double top1 = evaluation.at("top1", i), loss = evaluation.at("loss", i);
    if (!std::isnan(top1) && !std::isnan(loss) && !(top1 <= best)) {
      best = top1;
      best_step = evaluation.at("step", i);
    }
  }
  const auto images = train.columns.find("images_per_s");
  const double elapsed = train.count > 1 ? train.last("time") - train.at("time", 0) : kNaN;
  double speed = number(summary, "/times/images_per_s");
  if (!(speed > 0)) speed = images == train.columns.end() ? kNaN : median(images->second);
  const double loss = evaluation.count > 0 ? evaluation.at("loss", evaluation.count - 1)
                                           : number(summary, "/result/loss");
  std::string by = text_in(summary, "/best/by");
  if (by == "accuracy") by.clear();
  ordered_json results{{"status", text_in(summary, "/status")}, {"by", by}};
  const auto add = [&](const char* name, double value, double otherwise = kNaN) {
    results[name] = number_json(std::isnan(value) ? otherwise : value);
  };
  add("best", number(summary, "/best/top1"), best);
  add("best_step", number(summary, "/best/step"), best_step);
  add("value", by.empty() ? kNaN : number(summary, "/best/value"));
  add("last", evaluation.last("top1"), number(summary, "/result/top1"));
  add("loss", loss);
  add("test", number(summary, "/test/top1"), run.of("test").last("top1"));
  add("train_loss", train.last("loss"));
  add("step", std::fmax(number(summary, "/step"), train.last("step")));  // the other one of NaN
  add("steps", number(summary, "/steps"), number(run.start, "/steps"));
  add("seconds", number(summary, "/times/seconds"), elapsed);
  add("images_per_s", speed);
  return results;
}

StoredRun read_run(const fs::path& folder) {
  StoredRun run{.folder = folder};
  const fs::path whole = fs::absolute(folder).lexically_normal();
  run.name = (whole.has_filename() ? whole : whole.parent_path()).filename().string();
  run.summary = read_object(folder / "summary.json");
  run.evaluation = read_object(folder / "evaluation.json");
  read_metrics(folder / "metrics.jsonl", run);
  if (const auto config = read_file(folder / "config.toml")) run.options = options_of(*config);
  return run;
}

namespace {

constexpr const char* kCheckpoints = "checkpoints";

/// Whether a training program has written to `folder`.
bool is_run(const fs::path& folder) {
  std::error_code error;
  const auto has = [&](const char* name) { return fs::exists(folder / name, error); };
  return has("summary.json") || has("config.toml") || has("metrics.jsonl") || has(kCheckpoints);
}

/// Whether the name may be one in runs/.
bool may_be_in_runs(const std::string& name) {
  return !name.starts_with('/') && !name.starts_with('.');
}

/// The folder of the run whose checkpoints `path` is, or is among; else `path`.
fs::path folder_of_run(const fs::path& path) {
  std::error_code error;
  fs::path folder = fs::is_directory(path, error) ? path : path.parent_path();
  if (folder.empty()) folder = ".";
  if (fs::weakly_canonical(folder, error).filename() != kCheckpoints) return path;
  folder = (folder / "..").lexically_normal();
  return folder.has_filename() ? folder : folder.parent_path();  // "runs/first/"
}

StoredRun find_run(const std::string& named) {
  std::error_code error;
  const fs::path folder = folder_of_run(path_of_run(named));
  if (!fs::is_directory(folder, error)) fail_no_run(named);
  StoredRun run = read_run(folder);
  if (run.summary.is_null() && run.options.empty() && run.rows.empty()) {
    fail_usage(
        "{} has no summary.json or config.toml, and no rows in metrics.jsonl. Pass a run's folder.",
        one_line(folder.string()));
  }
  return run;
}

}  // namespace

void fail_no_run(const std::string& name) {
  const std::string shown = one_line(name);
  fail_usage("there is no run {}{}. Pass the name or the folder of a run.", shown,
             may_be_in_runs(name) ? ", and no folder runs/" + shown : "");
}

fs::path path_of_run(const std::string& name) {
  std::error_code error;
  const fs::path here = name, in_runs = fs::path("runs") / name;
  if (!may_be_in_runs(name)) return here;
  if (!is_run(in_runs))
    return !fs::exists(here, error) && fs::is_directory(in_runs, error) ? in_runs : here;
  if (is_run(here) && !fs::equivalent(here, in_runs, error)) {
    const std::string shown = one_line(name);
    fail_usage("{} is a run here and in runs/. Pass ./{} or runs/{}.", shown, shown, shown);
  }
  return in_runs;
}

std::vector<StoredRun> find_runs(const std::vector<std::string>& names) {
  std::vector<StoredRun> runs;
  std::error_code error;
  for (const std::string& named : names) {
    const bool page = named.ends_with(".html") && fs::is_regular_file(named, error);
    if (!page) runs.push_back(find_run(named));
  }
  return runs;
}

}  // namespace lockstep
