// The timeline of a rank: a ring of the last spans, and their events in a trace file.
#include "src/base/timeline.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

using nlohmann::json;

TEST(Track, KeepsTheLastSpansInOrder) {
  Track track(3);
  EXPECT_TRUE(track.spans().empty());
  for (int i = 0; i < 5; ++i) track.add("step", i, 10 * i, 10 * i + 5);
  const std::vector<Track::Span> spans = track.spans();
  ASSERT_EQ(spans.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(spans[i].number, static_cast<std::int64_t>(i) + 2);
    EXPECT_EQ(spans[i].begin_ns, 10 * spans[i].number);
  }
}

TEST(Track, ATimedSpanEndsWithItsScope) {
  Track track(8);
  const std::int64_t before = now_ns();
  {
    const TimedSpan outer(&track, "outer");
    const TimedSpan inner(&track, "inner", 7), nowhere(nullptr, "nowhere");
  }
  const std::int64_t after = now_ns();
  const std::vector<Track::Span> spans = track.spans();
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_STREQ(spans[0].name, "inner");
  EXPECT_STREQ(spans[1].name, "outer");
  EXPECT_LE(before, spans[1].begin_ns);
  EXPECT_LE(spans[1].begin_ns, spans[0].begin_ns);
  EXPECT_LE(spans[0].end_ns, spans[1].end_ns);
  EXPECT_LE(spans[1].end_ns, after);
}

TEST(Trace, ContainsAllRanksByOneClock) {
  std::vector<std::string> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    Timeline timeline(4);
    timeline.compute.add("step", 12, 5000 - rank, 9000 - rank);
    timeline.communication.add("update", -1, 6500 - rank, 6750 - rank);
    ranks.push_back(
        trace_events(timeline, rank, "h\"o\xffst", [&](std::int64_t ns) { return ns + rank; }));
  }
  const json document = json::parse(trace_document(ranks));
  int spans = 0;
  std::set<std::string> names;
  for (const json& event : document["traceEvents"]) {
    if (event["ph"] == "M") {
      for (const auto& [key, value] : event["args"].items()) {
        if (value.is_string()) names.insert(value);
      }
      continue;
    }
    ++spans;
    EXPECT_EQ(event["ph"], "X");
    const bool computes = event["tid"] == 0;
    EXPECT_EQ(event["name"], computes ? "step 12" : "update");
    EXPECT_EQ(event["ts"], computes ? 5.0 : 6.5);
    EXPECT_EQ(event["dur"], computes ? 4.0 : 0.25);
  }
  EXPECT_EQ(spans, 4);
  EXPECT_EQ(names,
            (std::set<std::string>{"rank 0 (h\"o\xef\xbf\xbdst)", "rank 1 (h\"o\xef\xbf\xbdst)",
                                   "compute", "communication"}));
}

}  // namespace
}  // namespace lockstep
