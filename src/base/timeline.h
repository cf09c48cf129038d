// Timeline: the work of one rank over time, for the viewers of Chrome (chrome://tracing) and
// Perfetto (ui.perfetto.dev). Times come from src/base/clock.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/clock.h"

namespace lockstep {

/// The last spans of a track of time, in a ring that is allocated at construction. Spans of a track
/// are nested or disjoint. One thread at a time.
class Track {
 public:
  struct Span {
    const char* name = nullptr;
    std::int64_t number = -1;  ///< follows the name; negative: none
    std::int64_t begin_ns = 0, end_ns = 0;
  };

  explicit Track(std::size_t most) : ring_(most) {}

  /// `name` outlives the track.
  void add(const char* name, std::int64_t number, std::int64_t begin_ns, std::int64_t end_ns) {
    ring_[added_++ % ring_.size()] = {name, number, begin_ns, end_ns};
  }
  /// The spans that the ring still contains, oldest first.
  std::vector<Span> spans() const;

 private:
  std::vector<Span> ring_;
  std::size_t added_ = 0;
};

/// Adds a span to `track` from its construction to its destruction. null: adds nothing.
class TimedSpan {
 public:
  TimedSpan(Track* track, const char* name, std::int64_t number = -1)
      : track_(track), name_(name), number_(number), begin_ns_(track == nullptr ? 0 : now_ns()) {}
  ~TimedSpan() {
    if (track_ != nullptr) track_->add(name_, number_, begin_ns_, now_ns());
  }
  TimedSpan& operator=(TimedSpan&&) = delete;  ///< neither copied nor moved

 private:
  Track* track_;
  const char* name_;
  std::int64_t number_, begin_ns_;
};

/// The two tracks of a rank, each with at most `spans` spans.
struct Timeline {
  explicit Timeline(std::size_t spans) : compute(spans), communication(spans) {}

  Track compute;        ///< the computing thread
  Track communication;  ///< buckets and the updates that follow them, on any thread
};

/// The rank's events in the form of a trace file, joined by ",\n". The process has number `rank`,
/// and the name "rank 3 (`host`)". `clock` converts a time of the tracks into nanoseconds of the
/// trace.
std::string trace_events(const Timeline& timeline, int rank, const std::string& host,
                         const std::function<std::int64_t(std::int64_t)>& clock);

/// The beginning of a trace file.
inline constexpr std::string_view kTraceBegin = R"({"displayTimeUnit":"ms","traceEvents":[)";

/// A trace file with the events of all ranks, in Chrome's format. Source: "Trace Event Format",
/// Google, 2016, complete events and metadata events.
std::string trace_document(const std::vector<std::string>& events_of_ranks);

}  // namespace lockstep
