// Who owns which shards, and the sums that the ranks exchange.
//
// A rank owns consecutive shards, its share. Any share is a row of at most 2 log2(S) whole subtrees
// of the canonical order (collectives/schedule.h), its roots. A rank adds its shards up to its
// roots, and the reducer adds the roots of all ranks in the order of the tree. So no bit of the sum
// depends on the shares.
//
//   S = 12       0  1  2     3  4  5     6  7     8  9    10 11
//   shares       3           3           2        2        2
//   roots        01    2     3   45      67       89       10 11
//   first rank   0 + 1 = 01, and 2; the reducer adds ((01 + (2 + 3)) + (45 + 67)) + (89 + 10 11)
#pragma once

#include <span>
#include <vector>

#include "src/base/view.h"

namespace lockstep {

/// The shards of each rank: consecutive, at least one, in rank order.
class Shares {
 public:
  Shares() = default;
  /// Throws a usage Error for a rank without shards.
  explicit Shares(std::vector<int> counts);

  int ranks() const { return static_cast<int>(counts_.size()); }
  int shards() const { return ends_.empty() ? 0 : ends_.back(); }
  Range of(int rank) const { return {ends_[rank] - counts_[rank], counts_[rank]}; }
  const std::vector<int>& counts() const { return counts_; }
  int largest() const;
  bool equal() const;
  /// "3 each", or "3 3 2 2 2" by rank.
  std::string text() const;

  bool operator==(const Shares&) const = default;

 private:
  std::vector<int> counts_, ends_;
};

/// The shares whose slowest rank ends first. Among these it selects those with the fewest roots on
/// a rank, then with the fewest in all. `speeds`: shards per second of each rank, above 0; empty:
/// all are equally fast. Throws a usage Error for more ranks than shards.
Shares choose_shares(int shards, int ranks, std::span<const double> speeds = {});

/// Seconds of the mean rank divided by those of the slowest: 1 if no rank waits.
double balance(const Shares& shares, std::span<const double> speeds = {});

/// Each shard of `own` as a range of its own.
std::vector<Range> single_shards(Range own);

/// The subtrees of `own`, a range of `shards` shards, in ascending order.
std::vector<Range> roots_of(Range own, int shards);

/// The sums that are left of disjoint subtrees in ascending order when neighbours are joined.
std::vector<Range> subtrees_of(const std::vector<Range>& rows, int shards);

/// The order in which rows are added: the sums of disjoint subtrees, in ascending order. It is a
/// program for a stack. Each row is pushed; then the last two sums are joined merges[row] times.
struct Fold {
  std::vector<int> merges;
  /// The first row of each sum that is left at the end: {0} if the rows are all shards.
  std::vector<int> left;
  /// The most sums on the stack.
  int depth = 0;
  /// The order is that of the shards 0, 1, ..
  bool by_number = false;

  static Fold of(std::span<const Range> rows, int shards);
  /// That of rows that are the shards 0 .. rows-1.
  static Fold of_shards(int rows);
};

/// The rows that each rank has before the reducer adds them.
struct Roots {
  int shards = 0;
  std::vector<std::vector<Range>> of_rank;  ///< in ascending order

  static Roots of(const Shares& shares);
  /// One shard of each of `ranks`.
  static Roots one_each(int ranks);

  /// A row of all: the rank, and its number there.
  struct Row {
    int rank = 0, number = 0;
    Range shards;
  };
  /// All rows in ascending order.
  std::vector<Row> rows() const;
  /// The order of addition of rows().
  Fold fold() const;
  /// Each rank has one row, and these are added like shards of the same numbers.
  bool by_rank() const;
};

}  // namespace lockstep
