#include "src/base/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

/// A JSON string. Host names may contain any bytes.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::vector<Track::Span> Track::spans() const {
  const std::size_t held = std::min(added_, ring_.size());
  std::vector<Span> result;
  for (std::size_t i = added_ - held; i < added_; ++i) result.push_back(ring_[i % ring_.size()]);
  return result;
}

std::string trace_events(const Timeline& timeline, int rank, const std::string& host,
                         const std::function<std::int64_t(std::int64_t)>& clock) {
  std::string out;
  const auto add = [&](const char* what, int thread, const char* key, const std::string& value) {
    fmt::format_to(std::back_inserter(out),
                   R"({}{{"ph":"M","pid":{},"tid":{},"name":"{}","args":{{"{}":{}}}}})",
                   out.empty() ? "" : ",\n", rank, thread, what, key, value);
  };
  add("process_name", 0, "name", quoted(fmt::format("rank {} ({})", rank, host)));
  add("process_sort_index", 0, "sort_index", std::to_string(rank));
  const std::pair<const char*, const Track*> tracks[] = {
      {"compute", &timeline.compute}, {"communication", &timeline.communication}};
  for (int thread = 0; thread < 2; ++thread) {
    const auto& [name, track] = tracks[thread];
    add("thread_name", thread, "name", quoted(name));
    add("thread_sort_index", thread, "sort_index", std::to_string(thread));
    for (const Track::Span& span : track->spans()) {
      // The length is the difference of converted times. So spans that touch also touch on the
      // clock of the trace.
      const std::int64_t begin = clock(span.begin_ns), length = clock(span.end_ns) - begin;
      fmt::format_to(std::back_inserter(out),
                     ",\n"
                     R"({{"ph":"X","pid":{},"tid":{},"name":"{}{}","ts":{:.3f},"dur":{:.3f}}})",
                     rank, thread, span.name,
                     span.number < 0 ? "" : fmt::format(" {}", span.number), begin * 1e-3,
                     length * 1e-3);
    }
  }
  return out;
}

std::string trace_document(const std::vector<std::string>& events_of_ranks) {
  return fmt::format("{}\n{}\n]}}\n", kTraceBegin, fmt::join(events_of_ranks, ",\n"));
}

}  // namespace lockstep
