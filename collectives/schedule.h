// An all-reduce as data. An algorithm describes what each rank sends, receives and adds, without
// doing it. The interpreter in tests/unit/algorithms.cc runs algorithms without MPI,
// collectives/schedule_run.h runs them over MPI, and cost() estimates their time.
//
// clang-format off
//   address    an element. [0, count) is the bucket, [count, count + scratch) is scratch that
//              belongs to the schedule
//   action     one message, seen from one of its two ends, or one local operation:
//     send       elements `range` go to `peer`
//     copy       elements from `peer` overwrite `range`
//     add        elements from `peer` are added to `range`
//                (copy and add with peer == own rank: the own elements at `source`)
//   round      actions of one rank. Its messages run at once. When they have arrived, its local
//              actions run one after another. No message touches an address that another message of
//              the round writes
//   schedule   the rounds of one rank. All ranks have the same number of rounds; a rank that idles
//              has empty ones. A message of round t is received in round t, so that no schedule can
//              deadlock. In one round, messages between two ranks match in the listed order
//   algorithm  a pure function (rank, size, count) -> schedule
//
//   tree, two ranks, count 8:   rank 0: [ add from 1: 0..8 ]   [ send to 1: 0..8 ]
//                               rank 1: [ send to 0: 0..8 ]    [ copy from 0: 0..8 ]
// clang-format on
//
// THE CANONICAL ORDER of a sum over shards 0 .. S-1 is bottom-up pairs. At distance d = 1, 2, 4,
// ..: shard r += shard r + d for every r that is a multiple of 2d, if r + d < S. The sum then does
// not depend on the rank that adds.
//
//   S = 6:   0   1   2   3   4   5
//            0 <-+   2 <-+   4 <-+        d = 1
//            0 <-----+       4            d = 2
//            0 <-------------+            d = 4       ((0 + 1) + (2 + 3)) + (4 + 5)
//
// A rank that owns 2^k consecutive shards forms a whole subtree. If all ranks do, they can add
// their sums in the same order over rank numbers; collectives/shares.h is for any other share. (a +
// b and b + a are bitwise identical, so that either side may add.)
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/shares.h"
#include "src/base/view.h"

namespace lockstep {

enum class Verb : std::uint8_t { send, copy, add };

struct Action {
  Verb verb = Verb::send;
  int peer = 0;
  Range range;
  std::int64_t source = 0;  ///< first address that a local action reads; messages ignore it
};

using Round = std::vector<Action>;

struct Schedule {
  std::int64_t count = 0;    ///< elements of the bucket
  std::int64_t scratch = 0;  ///< elements of scratch after the bucket on this rank
  std::vector<Round> rounds;
};

/// The part of rank `rank` of `size` in an all-reduce of `count` elements.
using Algorithm = Schedule (*)(int rank, int size, std::int64_t count);

/// The cost of a message.
struct Link {
  double latency = 20e-6;    ///< seconds from send to receive of an empty message
  double bandwidth = 1.2e9;  ///< bytes per second, in each direction of a rank at once (10 Gbit/s)
  double add_rate = 10e9;    ///< bytes per second that a rank adds
};

/// Seconds of `algorithm` for `count` floats on `size` ranks, by the alpha-beta-gamma model. A
/// round costs one latency, the bytes that its busiest rank sends or receives, and the bytes that
/// its busiest rank adds. Rounds follow one another.
double cost(Algorithm algorithm, int size, std::int64_t count, const Link& link);

/// The same for the reducer direct (collectives/reducers/direct.cc), whose ranks have the rows of
/// `roots`: each sends its rows to the owners of their parts, and each owner sends one sum to all.
double cost(const Roots& roots, std::int64_t count, const Link& link);

/// Floats of a cache line. Ranks that write to one array at once cut it at multiples of this.
inline constexpr std::int64_t kLineFloats = 16;

/// Part number `part` of `parts` nearly equal parts of `range`. All parts except the last end at a
/// multiple of `aligned` elements from the begin of the range.
Range part_of(Range range, int part, int parts, std::int64_t aligned = 1);

}  // namespace lockstep
