#include "collectives/row_reducer.h"

#include <algorithm>
#include <cstring>

#include "collectives/algorithms/algorithms.h"
#include "collectives/all_gather.h"
#include "collectives/node/backoff.h"

namespace lockstep {

RowSum::RowSum(std::int64_t rows, std::int64_t width, int parts) : parts_(parts) {
  for (int left = parts - 1; left > 0; left /= 2) levels_.emplace_back(rows, width);
}

void RowSum::take(int part, SparseRows& rows) {
  const bool last = part == parts_ - 1;
  // As ShardSum does it: a part that comes joins those that wait for a right neighbour.
  std::size_t at = 0;
  for (; last ? (part >> at) != 0 : (part >> at) & 1; ++at) {
    if (((part >> at) & 1) == 0) continue;
    rows.add(levels_[at]);
    levels_[at].clear();
  }
  if (last) return;
  std::swap(levels_[at], rows);
  rows.clear();
}

std::size_t RowSum::bytes() const {
  std::size_t total = 0;
  for (const SparseRows& level : levels_) total += level.bytes();
  return total;
}

namespace {

// One core, a table of 30982 x 7, 4800 places with 672 rows from each of two ranks: the values are
// added to rows in 18 us and to the dense table, which is cleared first, in 110 us; the rows of
// both ranks are packed, added and written in 16 us.
constexpr double kPlaceSeconds = 4e-9, kRowSeconds = 12e-9, kDenseRate = 8e9;
/// Messages and sums within a host.
constexpr Link kHost{.latency = 10e-6, .bandwidth = 4e9, .add_rate = 10e9};

}  // namespace

RowCost cost_of_rows(const RowWork& work, const Link* link) {
  const Range table{0, work.rows * work.width};
  const double table_bytes = static_cast<double>(table.count) * sizeof(float),
               row_bytes = static_cast<double>(work.expected * (work.width + 1)) * sizeof(float);
  RowCost cost{static_cast<double>(work.places) * kPlaceSeconds +
                   work.ranks * static_cast<double>(work.expected) * kRowSeconds,
               work.own_shards * table_bytes / kDenseRate};
  if (work.ranks == 1) return cost;
  const Link& way = link != nullptr ? *link : kHost;
  cost.rows += cost_of_gather(std::vector<int>(work.ranks, 1), row_bytes, way);
  cost.dense +=
      link == nullptr
          ? table_bytes / way.add_rate
          : lockstep::cost(algorithms_by_cost(work.ranks, {&table, 1}, way).front()->algorithm,
                           work.ranks, table.count, way);
  return cost;
}

struct RowReducer::Body {
  Body(const Comm& comm, std::int64_t rows, std::int64_t width, int own_shards, std::int64_t most)
      : size(comm.size()),
        row_words(static_cast<std::size_t>(width) + 1),
        own_shards(own_shards),
        most(static_cast<std::size_t>(most)),
        shards(rows, width, own_shards),
        ranks(rows, width, size),
        part(rows, width),
        messages(comm, this->most * row_words * sizeof(float)) {}

  /// Row by row its number and its values, in this rank's message. Returns its bytes.
  std::size_t pack(const SparseRows& rows) {
    const auto numbers = rows.numbers();
    require(numbers.size() <= most,
            "RowReducer has room for {} rows of a rank, but {} are to be sent", most,
            numbers.size());
    auto* to = reinterpret_cast<float*>(messages.own());
    for (std::size_t i = 0; i < numbers.size(); ++i, to += row_words) {
      std::memcpy(to, &numbers[i], sizeof *to);
      std::copy_n(rows.values(i), row_words - 1, to + 1);
    }
    return numbers.size() * row_words * sizeof(float);
  }
  void unpack(std::span<const std::byte> message, SparseRows& rows) const {
    const auto* from = reinterpret_cast<const float*>(message.data());
    const float* const end = from + message.size() / sizeof(float);
    for (; from < end; from += row_words) {
      std::int32_t number;
      std::memcpy(&number, from, sizeof number);
      std::copy_n(from + 1, row_words - 1, rows.row(number));
    }
  }

  Backoff backoff;
  int size;
  std::size_t row_words;
  int own_shards;
  std::size_t most;
  RowSum shards, ranks;
  SparseRows part;  ///< of one of all ranks while it is added
  AllGather messages;
  std::vector<std::int32_t> written;  ///< rows of the table that are not zeros
};

RowReducer::RowReducer(const Comm& comm, std::int64_t rows, std::int64_t width, int own_shards,
                       std::int64_t most) {
  agree(comm, [&] {
    if (rows >= 0 && width > 0 && own_shards > 0 && most >= 0) return;
    fail_usage(
        "RowReducer cannot be made for {} rows of {} elements, {} shards and {} rows of a rank. "
        "Pass positive numbers.",
        rows, width, own_shards, most);
  });
  expect_same(comm, "arguments of RowReducer",
              fmt::format("rows = {}\nwidth = {}\nmost = {}\n", rows, width, most), kSameArguments);
  body_ = std::make_unique<Body>(comm, rows, width, own_shards, most);
}

RowReducer::~RowReducer() = default;

void RowReducer::take(int shard, SparseRows& rows) {
  Body& b = *body_;
  b.shards.take(shard, rows);
  if (shard < b.own_shards - 1) return;
  b.messages.start(b.pack(rows));
  rows.clear();
}

bool RowReducer::advance() { return body_->messages.advance(); }

void RowReducer::finish(float* table) {
  Body& b = *body_;
  b.backoff.begin();
  while (!advance()) b.backoff.between();
  for (int rank = 0; rank < b.size; ++rank) {
    b.part.clear();
    b.unpack(b.messages.of(rank), b.part);
    b.ranks.take(rank, b.part);
  }
  const auto width = static_cast<std::int64_t>(b.row_words - 1);
  for (const std::int32_t row : b.written) std::fill_n(table + row * width, width, 0.0f);
  const auto numbers = b.part.numbers();
  for (std::size_t i = 0; i < numbers.size(); ++i)
    std::copy_n(b.part.values(i), width, table + numbers[i] * width);
  b.written.assign(numbers.begin(), numbers.end());
  b.part.clear();
}

std::size_t RowReducer::bytes() const {
  const Body& b = *body_;
  return b.shards.bytes() + b.ranks.bytes() + b.part.bytes() + b.messages.bytes();
}

}  // namespace lockstep
