// An all-reduce as data. An algorithm says what each rank sends, receives and adds, and does none
// of it: the interpreter of tests/unit/algorithms.cc runs algorithms without MPI,
// collectives/schedule_run.h runs them over MPI, cost() estimates what they take.
//
// clang-format off
//   address    an element. [0, count) is the bucket, [count, count + scratch) is scratch that
//              belongs to the schedule
//   action     one message, seen from one of its two ends, or one local operation:
//     send       elements `range` go to `peer`
//     copy       elements from `peer` overwrite `range`
//     add        elements from `peer` are added to `range`
//                (copy and add with peer == own rank: the own elements at `source`)
//   round      actions of one rank. Its messages run at once; when they have arrived, its local
//              actions run one after another. No address that a message of the round writes is
//              touched by another message of the same round
//   schedule   the rounds of one rank. All ranks have the same number of rounds (empty ones where a
//              rank idles), and what is sent in round t is received in round t, so that no schedule
//              can deadlock. Between two ranks and in one round, messages match in the order in
//              which they are listed
//   algorithm  a pure function (rank, size, count) -> schedule
//
//   tree, two ranks, count 8:   rank 0: [ add from 1: 0..8 ]   [ send to 1: 0..8 ]
//                               rank 1: [ send to 0: 0..8 ]    [ copy from 0: 0..8 ]
// clang-format on
//
// THE CANONICAL ORDER, in which a sum over shards 0 .. S-1 does not depend on who adds what where:
// bottom-up pairs. At distance d = 1, 2, 4, ..: shard r += shard r + d for every r that is a
// multiple of 2d, as long as r + d < S.
//
//   S = 6:   0   1   2   3   4   5
//            0 <-+   2 <-+   4 <-+        d = 1
//            0 <-----+       4            d = 2
//            0 <-------------+            d = 4       ((0 + 1) + (2 + 3)) + (4 + 5)
//
// A rank that owns 2^k consecutive shards forms a whole subtree of it, so that ranks may then add
// their sums in the same order over rank numbers. (a + b and b + a are the same bits: it does not
// matter which side adds.)
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/view.h"

namespace lockstep {

enum class Verb : std::uint8_t { send, copy, add };

struct Action {
  Verb verb = Verb::send;
  int peer = 0;
  Range range;
  std::int64_t source = 0;  ///< first address read by a local step; unused by messages
};

using Round = std::vector<Action>;

struct Schedule {
  std::int64_t count = 0;    ///< elements of the bucket
  std::int64_t scratch = 0;  ///< elements of scratch this rank needs behind it
  std::vector<Round> rounds;
};

/// What rank `rank` of `size` does so that `count` elements become the sum over all ranks on each
/// of them.
using Algorithm = Schedule (*)(int rank, int size, std::int64_t count);

/// What a message costs: a machine in three numbers.
struct Link {
  double latency = 20e-6;    ///< seconds from send to receive of an empty message
  double bandwidth = 1.2e9;  ///< bytes per second, in each direction of a rank at once (10 Gbit/s)
  double add_rate = 10e9;    ///< bytes per second that a rank adds
};

/// Seconds that `algorithm` takes for `count` floats on `size` ranks, by the alpha-beta-gamma
/// model: a round takes one latency, the bytes that its busiest rank sends or receives, and the
/// bytes that the busiest rank adds; rounds follow one another.
double cost(Algorithm algorithm, int size, std::int64_t count, const Link& link);

/// Floats of a cache line. Ranks that write to parts of one array at once cut it at multiples of
/// it.
inline constexpr std::int64_t kLineFloats = 16;

/// Part number `part` of `parts` nearly equal ones of `range`. All parts but the last end at a
/// multiple of `aligned` elements from the begin of the range.
Range part_of(Range range, int part, int parts, std::int64_t aligned = 1);

}  // namespace lockstep
