// JSON lines: one write(2) for each, so that a line is whole, or an error if the disk is full.
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "src/base/check.h"
#include "src/report/pending.h"
#include "src/report/report.h"

namespace lockstep {
namespace {

bool is_of_kind(const nlohmann::json& object, std::string_view kind) {
  const auto found = object.find("kind");
  return found != object.end() && found->is_string() && found->get<std::string>() == kind;
}

/// The lines of `text` that stay, each with its newline.
std::string kept_lines(const std::string& text, std::int64_t keep_below_step,
                       std::string_view redone) {
  std::istringstream in(text);
  std::string kept, line;
  while (std::getline(in, line)) {
    const bool whole = !in.eof();  // the last line may lack its end
    const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    const auto step = object.is_object() ? object.find("step") : object.end();
    const bool stepped = object.is_object() && step != object.end() && step->is_number();
    const std::int64_t end = keep_below_step - (stepped && is_of_kind(object, redone));
    const bool later =
        keep_below_step >= 0 && stepped && step->get<double>() >= static_cast<double>(end);
    if (whole && object.is_object() && !later) kept += line + "\n";
  }
  return kept;
}

/// Removes the other lines of `path`, which it returns.
const std::filesystem::path& keep_lines(const std::filesystem::path& path,
                                        std::int64_t keep_below_step, std::string_view redone) {
  if (const auto before = read_file(path)) {
    const std::string kept = kept_lines(*before, keep_below_step, redone);
    if (kept == *before) return path;
    require_no_writer(path);
    replace_file(path, kept);
  }
  return path;
}

nlohmann::ordered_json number(double value) {
  constexpr double kExact = 9007199254740992.0;  // 2^53: below it doubles hold every whole number
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  const bool minus_zero = value == 0 && std::signbit(value);
  if (value == std::floor(value) && std::abs(value) < kExact && !minus_zero)
    return static_cast<std::int64_t>(value);
  return value;
}

}  // namespace

JsonLines::JsonLines(const std::filesystem::path& path, std::int64_t keep_below_step,
                     std::string_view redone)
    : file_(keep_lines(path, keep_below_step, redone), OutputFile::Mode::append) {}

void JsonLines::write(std::string_view kind, const Fields& fields, const Texts& texts) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& [name, value] : fields) object[name] = number(value);
  for (const auto& [name, text] : texts) object[name] = text;
  // Names may contain any bytes. Bytes that are not UTF-8 are replaced.
  write(kind, object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

void JsonLines::write(std::string_view kind, std::string_view object) {
  pending_ +=
      fmt::format("{{\"kind\":\"{}\",\"time\":{:.3f},{}\n", kind, wall_time(), object.substr(1));
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

void JsonLines::sync() {
  flush();
  file_.sync();
}

}  // namespace lockstep
