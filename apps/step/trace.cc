#include "apps/step/trace.h"

#include <algorithm>
#include <limits>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/machine.h"
#include "src/files/file.h"

namespace lockstep {
namespace {

/// Limit of spans in memory for one of the two tracks of a rank.
std::size_t spans_of_a_track(int ranks) {
  // Rank 0 gathers the spans of all ranks in one file, so more ranks keep fewer each.
  constexpr std::size_t kInAll = std::size_t{1} << 21, kMost = 32768, kLeast = 256;
  return std::clamp(kInAll / 2 / ranks, kLeast, kMost);
}

/// A trace replaces an older one, and no other file.
void require_trace_or_nothing(const std::filesystem::path& path) {
  const auto begin = read_file(path, kTraceBegin.size());
  require(!begin || *begin == kTraceBegin, "{} exists and is no trace. Use another name.",
          path.string());
}

}  // namespace

void require_trace_file(const std::filesystem::path& path) {
  try {
    require_replaceable(path);
    require_trace_or_nothing(path);
  } catch (const Error& failed) {
    fail_usage("--trace: {}", failed.what());
  }
}

Trace::Trace(const Comm& comm)
    : comm_(comm),
      node_(comm.node()),
      timeline_(spans_of_a_track(comm.size())),
      offset_(clock_offset(comm, node_, now_ns)),
      measured_ns_(now_ns()) {}

std::string Trace::write(const std::filesystem::path& path) {
  const ClockOffset last = clock_offset(comm_, node_, now_ns);
  const std::int64_t now = now_ns();
  // Clocks of two hosts drift apart by microseconds each second. A span lies between the two
  // measurements, so its offset is interpolated between theirs.
  const double drift =
      static_cast<double>(last.ns - offset_.ns) / std::max<std::int64_t>(now - measured_ns_, 1);
  const auto of_rank_0 = [&](std::int64_t ns) -> std::int64_t {
    return ns + offset_.ns + std::llround(drift * (ns - measured_ns_));
  };
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const Track* track : {&timeline_.compute, &timeline_.communication}) {
    for (const Track::Span& span : track->spans())
      first = std::min(first, of_rank_0(span.begin_ns));
  }
  // The first span of any rank is time 0 of the file.
  const std::int64_t zero = comm_.min(first);
  const std::vector<std::string> events = comm_.gather(trace_events(
      timeline_, comm_.rank(), host_name(), [&](std::int64_t ns) { return of_rank_0(ns) - zero; }));
  if (comm_.rank() != 0) return {};
  try {
    require_trace_or_nothing(path);  // this run may have written another file there
    replace_file(path, trace_document(events));
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace lockstep
