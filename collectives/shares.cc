#include "collectives/shares.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "src/base/check.h"
#include "src/base/plural.h"

namespace lockstep {
namespace {

/// The most shards that each rank may own if the slowest is to end as early as possible. Bisects
/// the seconds of the slowest rank: more time never lowers the shards that the ranks can add. A
/// hundred halvings exhaust a double. The factor beside `speed` allows for a product that rounds to
/// just below a whole number.
std::vector<int> largest_shares(int shards, std::span<const double> speeds) {
  const auto shares_in = [&](double seconds) {
    std::vector<int> most;
    for (const double speed : speeds) {
      const double whole = std::floor(std::min<double>(seconds * speed * (1 + 1e-12), shards));
      most.push_back(std::max(1, static_cast<int>(whole)));
    }
    return most;
  };
  const auto enough = [&](double seconds) {
    const std::vector<int> most = shares_in(seconds);
    return std::accumulate(most.begin(), most.end(), std::int64_t{0}) >= shards;
  };
  // In this time each rank, also the slowest, could do all shards.
  double low = 0, high = shards / *std::ranges::min_element(speeds);
  for (int i = 0; i < 100; ++i) (enough((low + high) / 2) ? high : low) = (low + high) / 2;
  return shares_in(high);
}

/// Ways to give the first shards to the first ranks, with the fewest roots. Dynamic programming
/// over the ranks. The roots of a rank depend only on the begin and the end of its shards. So of
/// all ways that end at the same shard, only the one with the fewest roots has to be kept.
class FewestRoots {
 public:
  /// Rank r gets at most most[r] shards.
  FewestRoots(int shards, std::vector<int> most) : shards_(shards), most_(std::move(most)) {}

  /// The shares with the fewest roots in all and at most `roots` on a rank; empty: there are none.
  std::vector<int> find(int roots) {
    std::int64_t rest = std::accumulate(most_.begin(), most_.end(), std::int64_t{0});
    ends_ = {{0, {}}};
    steps_.clear();
    for (const int most : most_) {
      rest -= most;
      add_rank(most, std::max<std::int64_t>(shards_ - rest, 0), roots);
    }
    // Back from the last rank, whose shards end at the last one: each step knows the count that led
    // to its end.
    std::vector<int> counts;
    std::int64_t end = shards_;
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
      const auto found = step->find(end);
      if (found == step->end()) return {};
      counts.push_back(found->second.count);
      end -= found->second.count;
    }
    std::ranges::reverse(counts);
    return counts;
  }

 private:
  struct Way {
    int roots = 0;  ///< of all ranks so far
    int count = 0;  ///< shards of the last rank
  };
  using Ways = std::map<std::int64_t, Way>;  ///< by the end of the last rank

  /// Ends below `least` leave too many shards to later ranks.
  void add_rank(int most, std::int64_t least, int roots) {
    constexpr int kWindow = 8;  // smaller shares have few roots less
    Ways next;
    for (const auto& [begin, way] : ends_) {
      for (int count = most; count >= std::max(1, most - kWindow); --count) {
        const std::int64_t end = begin + count;
        if (end < least || end > shards_) continue;
        const auto own = static_cast<int>(roots_of({begin, count}, shards_).size());
        if (own > roots) continue;
        const auto [at, is_new] = next.try_emplace(end, Way{way.roots + own, count});
        if (!is_new && way.roots + own < at->second.roots) at->second = {way.roots + own, count};
      }
    }
    steps_.push_back(next);
    ends_ = std::move(next);
  }

  int shards_;
  std::vector<int> most_;
  Ways ends_;
  std::vector<Ways> steps_;  ///< by rank
};

/// Whether `left` and `right`, which follows it, are the two halves of a subtree. A subtree of 2^k
/// shards begins at a multiple of 2^k. The last one may be shorter, because the shards end. It can
/// only be a right half: a left half is followed by shards.
bool are_siblings(Range left, Range right, int shards) {
  const std::int64_t both = 2 * left.count;
  return left.end() == right.begin && left.begin % both == 0 &&
         right.end() == std::min<std::int64_t>(left.begin + both, shards);
}

/// Fold::of() without by_number.
Fold stacked(std::span<const Range> rows, int shards) {
  Fold fold;
  std::vector<Range> sums;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    sums.push_back(rows[row]);
    fold.left.push_back(static_cast<int>(row));
    fold.depth = std::max(fold.depth, static_cast<int>(sums.size()));
    int merges = 0;
    // A row may complete several subtrees at once, as a carry in binary counting does.
    for (; sums.size() > 1 && are_siblings(sums.end()[-2], sums.back(), shards); ++merges) {
      sums.end()[-2].count += sums.back().count;
      sums.pop_back();
      fold.left.pop_back();
    }
    fold.merges.push_back(merges);
  }
  return fold;
}

}  // namespace

Shares::Shares(std::vector<int> counts) : counts_(std::move(counts)) {
  for (std::size_t rank = 0; rank < counts_.size(); ++rank) {
    if (counts_[rank] < 1) fail_usage("rank {} has no shard. Give each rank at least one.", rank);
  }
  ends_.resize(counts_.size());
  std::partial_sum(counts_.begin(), counts_.end(), ends_.begin());
}

int Shares::largest() const { return *std::ranges::max_element(counts_); }

bool Shares::equal() const { return std::ranges::count(counts_, largest()) == ranks(); }

std::string Shares::text() const {
  return equal() ? fmt::format("{} each", largest()) : fmt::format("{}", fmt::join(counts_, " "));
}

Shares choose_shares(int shards, int ranks, std::span<const double> speeds) {
  if (ranks > shards) {
    fail_usage("{} ranks need at least {} shards, not {}. Start at most {}.", ranks, ranks, shards,
               counted(shards, "rank"));
  }
  const std::vector<double> same(ranks, 1.0);
  if (speeds.empty()) speeds = same;
  FewestRoots search(shards, largest_shares(shards, speeds));
  for (int roots = 1;; ++roots) {
    // The rank with the most roots has the most memory and messages, so its number is the first
    // goal.
    std::vector<int> counts = search.find(roots);
    if (!counts.empty()) return Shares(std::move(counts));
  }
}

double balance(const Shares& shares, std::span<const double> speeds) {
  double all = 0, slowest = 0;
  for (int rank = 0; rank < shares.ranks(); ++rank) {
    const double speed = speeds.empty() ? 1 : speeds[rank];
    all += speed;
    slowest = std::max(slowest, static_cast<double>(shares.of(rank).count) / speed);
  }
  return shares.shards() / all / slowest;
}

std::vector<Range> single_shards(Range own) {
  std::vector<Range> shards;
  for (std::int64_t shard = own.begin; shard < own.end(); ++shard) shards.push_back({shard, 1});
  return shards;
}

std::vector<Range> roots_of(Range own, int shards) {
  std::vector<Range> roots;
  for (std::int64_t begin = own.begin; begin < own.end();) {
    // The largest subtree that begins here and ends within the own shards. It doubles only while
    // its other half has shards at all.
    std::int64_t size = 1;
    while (begin % (2 * size) == 0 && begin + size < shards &&
           std::min<std::int64_t>(begin + 2 * size, shards) <= own.end()) {
      size *= 2;
    }
    const std::int64_t end = std::min<std::int64_t>(begin + size, shards);
    roots.push_back({begin, end - begin});
    begin = end;
  }
  return roots;
}

std::vector<Range> subtrees_of(const std::vector<Range>& rows, int shards) {
  const Fold fold = stacked(rows, shards);
  std::vector<Range> sums;
  for (std::size_t i = 0; i < fold.left.size(); ++i) {
    const std::size_t next = i + 1 < fold.left.size() ? fold.left[i + 1] : rows.size();
    const std::int64_t begin = rows[fold.left[i]].begin;
    sums.push_back({begin, rows[next - 1].end() - begin});
  }
  return sums;
}

Fold Fold::of(std::span<const Range> rows, int shards) {
  Fold fold = stacked(rows, shards);
  // The merges alone define the order. Rows of any sizes may therefore use the code for single
  // shards if they merge at the same places.
  const std::vector<Range> numbers = single_shards({0, std::ssize(rows)});
  fold.by_number = fold.merges == stacked(numbers, static_cast<int>(rows.size())).merges;
  return fold;
}

Fold Fold::of_shards(int rows) { return of(single_shards({0, rows}), rows); }

Roots Roots::of(const Shares& shares) {
  Roots roots{shares.shards(), {}};
  for (int rank = 0; rank < shares.ranks(); ++rank)
    roots.of_rank.push_back(roots_of(shares.of(rank), shares.shards()));
  return roots;
}

Roots Roots::one_each(int ranks) { return of(Shares(std::vector<int>(ranks, 1))); }

std::vector<Roots::Row> Roots::rows() const {
  std::vector<Row> rows;
  for (int rank = 0; rank < std::ssize(of_rank); ++rank) {
    for (int number = 0; number < std::ssize(of_rank[rank]); ++number)
      rows.push_back({rank, number, of_rank[rank][number]});
  }
  std::ranges::sort(rows, {}, [](const Row& row) { return row.shards.begin; });
  return rows;
}

Fold Roots::fold() const {
  std::vector<Range> ranges;
  for (const Row& row : rows()) ranges.push_back(row.shards);
  return Fold::of(ranges, shards);
}

bool Roots::by_rank() const {
  const std::vector<Row> all = rows();
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].rank != static_cast<int>(i)) return false;
  return all.size() == of_rank.size() && fold().by_number;
}

}  // namespace lockstep
