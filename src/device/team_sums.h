// Sums over the elements of a row or a block that a team shares (src/device/each.h). A chain of
// additions waits for each one's result, so a thread alone adds every kSumLanes-th element for
// itself, in vector registers. The order depends only on the number of elements and on the kind of
// device. For bodies of kernels.
#pragma once

#include <cstdint>

#include "src/base/host_device.h"

namespace lockstep {

inline constexpr int kSumLanes = 16;
/// Lanes of one member of the team.
template <class Team>
inline constexpr int kLanesOf = Team::lanes == 1 ? kSumLanes : 1;

/// Calls f(i, lane) for this member's elements of begin .. end-1. No call may depend on one of
/// another lane.
template <class Team, class F>
HOST_DEVICE void in_lanes(Team team, std::int64_t begin, std::int64_t end, const F& f) {
  constexpr int kLanes = kLanesOf<Team>;
  std::int64_t i = begin + team.lane;
  for (; i + kLanes <= end; i += kLanes * team.lanes) {
#pragma GCC ivdep
    for (int lane = 0; lane < kLanes; ++lane) f(i + lane, lane);
  }
  for (int lane = 0; i < end; ++i, ++lane) f(i, lane);
}

/// sums[n]: the sum of the terms number n of the elements begin .. end-1, on all members.
/// terms(i, of_element) writes the kSums terms of element i.
template <int kSums, class Sum, class Team, class Terms>
HOST_DEVICE void add_up(Team team, std::int64_t begin, std::int64_t end, const Terms& terms,
                        Sum (&sums)[kSums]) {
  constexpr int kLanes = kLanesOf<Team>;
  Sum lanes[kSums][kLanes] = {};
  in_lanes(team, begin, end, [&](std::int64_t i, int lane) {
    Sum of_element[kSums];
    terms(i, of_element);
    for (int n = 0; n < kSums; ++n) lanes[n][lane] += of_element[n];
  });
  for (int n = 0; n < kSums; ++n) {
    for (int half = kLanes / 2; half > 0; half /= 2) {
      for (int lane = 0; lane < half; ++lane) lanes[n][lane] += lanes[n][lane + half];
    }
    sums[n] = team.sum(lanes[n][0]);
  }
}

/// The sum of term(i) for i in 0 .. count-1, on all members.
template <class Team, class Term>
HOST_DEVICE auto sum_of(Team team, std::int64_t count, const Term& term) {
  using Sum = decltype(term(std::int64_t{}));
  Sum sums[1];
  add_up<1, Sum>(
      team, 0, count, [&](std::int64_t i, Sum* terms) { terms[0] = term(i); }, sums);
  return sums[0];
}

/// The largest value(i), a float, for i in 0 .. count-1, or `least`, on all members. NaN counts as
/// `least`.
template <class Team, class Value>
HOST_DEVICE float highest_of(Team team, std::int64_t count, float least, const Value& value) {
  constexpr int kLanes = kLanesOf<Team>;
  float highest[kLanes];
  for (float& own : highest) own = least;
  in_lanes(team, 0, count, [&](std::int64_t i, int lane) {
    const float found = value(i);
    highest[lane] = found > highest[lane] ? found : highest[lane];
  });
  for (int lane = 1; lane < kLanes; ++lane)
    highest[0] = highest[lane] > highest[0] ? highest[lane] : highest[0];
  return team.max(highest[0]);
}

}  // namespace lockstep
