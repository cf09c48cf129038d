// JSON lines: one write(2) for each, so that a line is whole, or an error if the disk is full. Also
// moves the logs of a run aside for another one.
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "src/base/check.h"
#include "src/report/pending.h"
#include "src/report/report.h"
#include "src/report/stored_run.h"

namespace lockstep {
namespace {

/// The lines of `text` that stay, each with its newline.
std::string kept_lines(const std::string& text, std::int64_t keep_below_step,
                       std::string_view redone) {
  std::istringstream in(text);
  std::string kept, line;
  while (std::getline(in, line)) {
    const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (in.eof() || !object.is_object()) continue;  // the last line may lack its end
    const nlohmann::json step = object.value("step", nlohmann::json());
    const bool again = !redone.empty() && text_in(object, "/kind") == redone;
    if (keep_below_step < 0 || !step.is_number() || step < keep_below_step - again)
      kept += line + "\n";
  }
  return kept;
}

/// Removes the other lines of `path`, which it returns.
const std::filesystem::path& keep_lines(const std::filesystem::path& path,
                                        std::int64_t keep_below_step, std::string_view redone) {
  if (const auto before = read_file(path)) {
    const std::string kept = kept_lines(*before, keep_below_step, redone);
    // The file is written anew only if a line goes. Nothing may write it meanwhile, because such a
    // line would be lost.
    if (kept == *before) return path;
    require_no_writer(path);
    replace_file(path, kept);
  }
  return path;
}

nlohmann::ordered_json number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return number_json(value);
}

}  // namespace

JsonLines::JsonLines(const std::filesystem::path& path, std::int64_t keep_below_step,
                     std::string_view redone)
    : file_(keep_lines(path, keep_below_step, redone), OutputFile::Mode::append) {}

void JsonLines::write(std::string_view kind, nlohmann::ordered_json object) {
  for (auto& value : object)
    if (value.is_number_float()) value = number(value.get<double>());
  // Names may contain any bytes.
  pending_ += fmt::format("{{\"kind\":\"{}\",\"time\":{:.3f},{}\n", kind, wall_time(),
                          json_text(object).substr(1));
  flush();
}

void JsonLines::recover(std::string lines) {
  lines.resize(lines.rfind('\n') + 1);  // whole lines: npos + 1 is 0
  if (lines.empty()) return;            // nearly always, and the file may be long
  const std::string written = read_file(file_.path()).value_or("");
  // A process writes its lines in order, so those that the file has come first.
  while (!lines.empty()) {
    const std::size_t length = lines.find('\n') + 1;
    if (written.find(lines.substr(0, length)) == std::string::npos) break;
    lines.erase(0, length);
  }
  pending_ += lines;
  flush();
}

void JsonLines::flush() { write_pending(file_, pending_); }

std::filesystem::path set_logs_aside(const std::filesystem::path& directory) {
  try {
    // create_directory() returns false for a name that exists, so two starts never share a folder.
    std::filesystem::path aside;
    for (int n = 1;; ++n) {
      aside = directory / fmt::format("earlier-{}", n);
      if (std::filesystem::create_directory(aside)) break;
    }
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("events.out.tfevents.")) files.push_back(entry.path());
    }
    files.push_back(directory / "metrics.jsonl");  // last, so that all are gone if it is
    for (const auto& file : files) std::filesystem::rename(file, aside / file.filename());
    return aside;
  } catch (const std::filesystem::filesystem_error& error) {
    fail("cannot set the earlier run's logs in {} aside: {}; choose another --run",
         directory.string(), error.code().message());
  }
}

}  // namespace lockstep
