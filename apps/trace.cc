#include "apps/trace.h"

#include <algorithm>
#include <limits>

#include "src/check.h"
#include "src/file.h"
#include "src/machine.h"

namespace lockstep {
namespace {

std::size_t spans_of_a_lane(int ranks) {
  const auto share = Trace::kMostInAll / 2 / static_cast<std::size_t>(ranks);
  return std::clamp(share, Trace::kLeast, Trace::kMost);
}

}  // namespace

void require_trace_file(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error))
    fail_usage("--trace {} is there and is no file: choose another name", path.string());
  const bool there = std::filesystem::exists(path, error);
  // It takes the place of an older one, beside which it is written.
  const std::filesystem::path probe = there ? temporary_name(path) : path;
  try {
    OutputFile(probe, OutputFile::Mode::create);
  } catch (const Error& failed) {
    fail_usage("--trace: {}", failed.what());
  }
  std::filesystem::remove(probe, error);
}

Trace::Trace(const Comm& comm)
    : comm_(comm),
      node_(comm.node()),
      timeline_(spans_of_a_lane(comm.size())),
      offset_(clock_offset(comm, node_)),
      measured_ns_(now_ns()) {}

std::string Trace::write(const std::filesystem::path& path) {
  const ClockOffset last = clock_offset(comm_, node_);
  const std::int64_t now = now_ns();
  const double drift = static_cast<double>(last.ns - offset_.ns) /
                       static_cast<double>(std::max<std::int64_t>(now - measured_ns_, 1));
  const auto of_rank_0 = [&](std::int64_t ns) -> std::int64_t {
    return ns + offset_.ns + std::llround(drift * static_cast<double>(ns - measured_ns_));
  };
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const Lane* lane : {&timeline_.compute, &timeline_.communication}) {
    for (const Lane::Span& span : lane->spans()) first = std::min(first, of_rank_0(span.begin_ns));
  }
  const std::int64_t zero = comm_.min(first);
  const std::string remark =
      last.error_ns == 0
          ? ""
          : fmt::format("clock {:+.1f} us, to {:.1f} us", static_cast<double>(last.ns) * 1e-3,
                        static_cast<double>(last.error_ns) * 1e-3);
  const std::vector<std::string> events =
      comm_.gather(trace_events(timeline_, comm_.rank(), host_name(), remark,
                                [&](std::int64_t ns) { return of_rank_0(ns) - zero; }));
  if (comm_.rank() != 0) return {};
  try {
    replace_file(path, trace_document(events));
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace lockstep
