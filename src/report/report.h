// The reports of a run: lines for people, JSON lines for programs, event files for TensorBoard.
// Only rank 0 uses them. If a call cannot write, it throws Error that names the file. Files receive
// the rest later, when there is room again, in whole lines and records.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/files/file.h"

namespace lockstep {

/// Lines on stdout; on a terminal also a progress bar with the time left, kept below the lines. No
/// colours. One thread.
class Console {
 public:
  /// A bar only if `out` is a terminal that a person sees. Owns nothing. `keep_waiting` is called
  /// each tenth of a second while a paused reader (Ctrl-S, a pager) leaves no room for a line. If
  /// it returns false, or the reader has gone (EPIPE), the call throws and all later calls do
  /// nothing.
  explicit Console(std::FILE* out = stdout, std::function<bool()> keep_waiting = {});
  ~Console();
  void line(const std::string& text);  ///< as printable() returns it
  void data(const std::string& text);  ///< a line for programs: unchanged unless a person sees it
  /// Draws the bar anew, at most ten times a second, in the width of the terminal (or $COLUMNS).
  /// From the second call on it shows the time left, by the pace since the first call: a resumed
  /// run counts its own steps. `note` is ASCII.
  void progress(std::int64_t done, std::int64_t total, std::string_view note);
  void clear();  ///< removes the bar
  /// The columns of a terminal that a person sees; 0 elsewhere: lines may be of any length.
  int columns() const;

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

/// The bar that Console draws, at most `width` characters:
///   [=====>    ] 480/1000 ETA 1:05:09 note
/// The note is cut first, then the bar is left out. `seconds_left` < 0: not known yet.
std::string progress_bar(std::int64_t done, std::int64_t total, double seconds_left,
                         std::string_view note, int width);

/// As many of `parts`, joined by ", ", as fit into `columns`, but always the first; all of them for
/// 0 columns.
std::string fitted(const std::vector<std::string>& parts, int columns);

/// "2026-11-21 10:14:31", local time.
std::string timestamp();

/// "1:05:09", "5:09"
std::string duration_text(double seconds);

/// Seconds since the beginning of 1970, UTC.
double wall_time();

/// One JSON object per line, written line by line, so that a reader never sees half a line of a
/// finished step.
class JsonLines {
 public:
  /// Appends to `path`. Lines with a "step" at or above `keep_below_step` are removed first,
  /// because a resumed run goes back to its checkpoint; negative keeps all. Lines of the kind
  /// `redone` are also removed at the step before. Lines that are no JSON objects (the half line of
  /// a crash) are always removed. The file is replaced as a whole.
  JsonLines(const std::filesystem::path& path, std::int64_t keep_below_step,
            std::string_view redone = {});
  /// The members of `object`, which is not empty. Adds "kind": kind in front ("train",
  /// "evaluation") and "time": wall_time() to the millisecond. Prints its whole numbers without a
  /// fraction, others so that they read back exactly, and NaN and infinities as strings ("NaN",
  /// "Infinity", "-Infinity"), because JSON has no such numbers.
  void write(std::string_view kind, nlohmann::ordered_json object);
  /// Lines that no call could write yet.
  const std::string& waiting() const { return pending_; }
  /// Writes the lines that waited in an earlier process, except those that the file has.
  void recover(std::string lines);
  /// Writes lines that an earlier call could not write. write() does so too.
  void flush();

 private:
  OutputFile file_;
  std::string pending_;  ///< lines that are not written yet
};

/// Moves metrics.jsonl and the event files of `directory` into a new folder within it: earlier-1,
/// or the next free number. TensorBoard shows it as a run of its own. Returns that folder.
std::filesystem::path set_logs_aside(const std::filesystem::path& directory);

/// A histogram as TensorBoard stores it. Bucket i holds values from limits[i - 1] (bucket 0: from
/// min) to limits[i].
struct Histogram {
  double min = 0, max = 0, count = 0, sum = 0, sum_squares = 0;  ///< of the finite values
  /// Right edges, ascending, and counts. A run of empty buckets is one bucket; the ends are not
  /// empty.
  std::vector<double> limits, counts;
};
/// Exponential buckets, eight per octave, from the bits of the floats: one pass, no search. NaN and
/// infinities are left out.
Histogram histogram(std::span<const float> values);

/// A TensorBoard event file in `directory` (TFRecord framing, protobuf events):
/// events.out.tfevents.<seconds>.<host>.<pid>.<n>. Written in pieces of about 1 MiB and by flush().
/// One thread.
class EventFile {
 public:
  /// `keep_below_step`: readers drop the steps at or above it of earlier files in the directory, as
  /// JsonLines does; negative keeps all.
  explicit EventFile(const std::filesystem::path& directory, std::int64_t keep_below_step = -1);
  ~EventFile();
  void scalars(std::int64_t step, const std::vector<std::pair<std::string, double>>& values);
  void histograms(std::int64_t step, const std::vector<std::pair<std::string, Histogram>>& values);
  /// For TensorBoard's page HParams: the run has these options, an object. Lists are text. Of
  /// several calls in a folder, TensorBoard shows the first. It joins the options of all runs by
  /// itself, so no file describes the experiment.
  void begin_session(const nlohmann::ordered_json& options);
  void end_session();  ///< the run is complete; once, because TensorBoard shows the first
  void flush();
  std::filesystem::path path() const;

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace lockstep
