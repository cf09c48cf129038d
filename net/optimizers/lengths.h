// The lengths of a parameter's array and of a second array: LARS, LAMB and Muon scale their steps
// by them.
#pragma once

#include <cmath>

#include "net/block_sums.h"
#include "net/update.h"

namespace lockstep {

static_assert(sizeof(LayerScratch::sums) == 2 * kMostBlocks * sizeof(double));

/// Euclidean.
struct Lengths {
  double first = 0, second = 0;
  HOST_DEVICE bool both() const { return first > 0 && second > 0; }
};

/// Elements of a parameter's array and of a second one.
struct Elements {
  float first, second;
};

/// The values that all elements of a parameter read, without the pointers to them.
struct Gradients {
  const float *p, *g;
  float decay, scale;
  Corrections corrections;
};

/// sums[2 * block] and the next: the sums of squares of the block's elements. `rule(i, gradients)`
/// returns the Elements number i, and may update its slots.
template <class Rule>
struct SumSquares {
  Rule rule;
  const float *p, *g, *decay;
  const UpdateRates* now;
  std::int64_t count, blocks;
  double* sums;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t block, Team team) const {
    const Gradients gradients{p, g, *decay, now->scale, now->corrections};
    double squares[2];
    const auto terms = [gradients, rule = rule](std::int64_t i, double* of_element) {
      const auto [first, second] = rule(i, gradients);
      of_element[0] = static_cast<double>(first) * first;
      of_element[1] = static_cast<double>(second) * second;
    };
    add_up(team, count * block / blocks, count * (block + 1) / blocks, terms, squares);
    if (team.lane != 0) return;
    sums[2 * block] = squares[0];
    sums[2 * block + 1] = squares[1];
  }
};

/// *own = *now, changed by `note(lengths, *own)`.
template <class Note>
struct NoteLengths {
  Note note;
  const double* sums;
  std::int64_t blocks;
  const UpdateRates* now;
  UpdateRates* own;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t, Team team) const {
    Lengths squares;
    for (std::int64_t block = team.lane; block < blocks; block += team.lanes) {
      squares.first += sums[2 * block];
      squares.second += sums[2 * block + 1];
    }
    const Lengths lengths{std::sqrt(team.sum(squares.first)), std::sqrt(team.sum(squares.second))};
    if (team.lane != 0) return;
    *own = *now;
    note(lengths, *own);
  }
};

/// Enqueues the lengths of the first `count` elements of `span` as `rule` returns them, and the
/// rates of its step, which it returns: `now`, changed by `note`. The next span overwrites them.
template <class Rule, class Note>
UpdateRates* enqueue_lengths(Stream& stream, const UpdateSpan& span, std::int64_t count,
                             const TrainingState& state, const UpdateRates* now, const Rule& rule,
                             const Note& note) {
  const std::int64_t begin = span.range.begin, blocks = blocks_of(count, state.lanes);
  double* const sums = state.scratch->sums;
  UpdateRates* const own = &state.scratch->now;
  each_row(stream, blocks, count / blocks,
           SumSquares<Rule>{rule, state.parameters + begin, state.gradients + begin,
                            state.decays + begin / Layout::kAlignment, now, count, blocks, sums});
  each_row(stream, 1, blocks, NoteLengths<Note>{note, sums, blocks, now, own});
  return own;
}

/// A ratio of lengths as a factor, at most the largest float, so that 0 times it is 0.
HOST_DEVICE inline float finite(double ratio) {
  constexpr float kMost = 0x1.fffffep127f;
  return ratio < kMost ? static_cast<float>(ratio) : kMost;
}

}  // namespace lockstep
