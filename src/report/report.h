// What a run tells: lines for people, JSON lines for programs, event files for TensorBoard. Used by rank 0 alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// Lines on stdout; on a terminal also a progress bar with the time left, kept below the lines. One thread.
class Console {
 public:
  Console();  ///< a bar only if stdout is a terminal
  ~Console();
  void line(std::string_view text);
  /// Draws the bar anew, at most ten times a second. `from` is where this run began (a resumed run's ETA counts from there).
  void progress(std::int64_t done, std::int64_t total, std::int64_t from, std::string_view note);
  void clear();  ///< takes the bar away

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

/// "2026-11-21 10:14:31.123456", local time, as the tutorial's log lines begin.
std::string timestamp();

/// One JSON object per line, appended and flushed line by line, so that a reader never sees half a line of a finished step.
class JsonLines {
 public:
  using Fields = std::vector<std::pair<std::string, double>>;
  /// Appends to `path`. `keep_below_step`: lines already there with a "step" at or above it are dropped first (a resumed run
  /// goes back to its checkpoint), the file being replaced as a whole; negative keeps all.
  JsonLines(const std::filesystem::path& path, std::int64_t keep_below_step);
  ~JsonLines();
  /// Integral values are printed without a fraction; NaN and infinities as strings ("NaN"), which JSON has no numbers for.
  void write(std::string_view kind, const Fields& fields);  ///< adds "kind": kind in front ("train", "evaluation")

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

/// A histogram as TensorBoard stores it.
struct Histogram {
  double min = 0, max = 0, count = 0, sum = 0, sum_squares = 0;
  std::vector<double> limits, counts;  ///< right edges, ascending; empty buckets at the ends left out
};
/// Exponential buckets, eight per octave, taken from the bits of the float: one pass, no search. Non-finite values are left out.
Histogram histogram(std::span<const float> values);

/// A TensorBoard event file in `directory` (TFRecord framing, protobuf events).
class EventFile {
 public:
  explicit EventFile(const std::filesystem::path& directory);
  ~EventFile();
  void scalars(std::int64_t step, const std::vector<std::pair<std::string, double>>& values);
  void histograms(std::int64_t step, const std::vector<std::pair<std::string, Histogram>>& values);
  void flush();
  std::filesystem::path path() const;

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace lockstep
