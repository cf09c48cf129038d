#include "collectives/row_reducer.h"

#include <algorithm>
#include <cstring>

#include "collectives/algorithms.h"
#include "collectives/communicator.h"
#include "collectives/rest.h"

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
               row_bytes = static_cast<double>(work.expected * (work.width + 1)) * sizeof(float),
               others = work.ranks - 1;
  RowCost cost{static_cast<double>(work.places) * kPlaceSeconds +
                   work.ranks * static_cast<double>(work.expected) * kRowSeconds,
               work.own_shards * table_bytes / kDenseRate};
  if (work.ranks == 1) return cost;
  const Link& way = link != nullptr ? *link : kHost;
  cost.rows += way.latency + others * row_bytes / way.bandwidth;
  cost.dense +=
      link == nullptr
          ? table_bytes / way.add_rate
          : lockstep::cost(algorithms_by_cost(work.ranks, {&table, 1}, way).front()->algorithm,
                           work.ranks, table.count, way);
  return cost;
}

struct RowReducer::Body {
  Body(const Comm& on, std::int64_t rows, std::int64_t width, int own_shards, std::int64_t most)
      : comm(on),
        row_words(static_cast<std::size_t>(width) + 1),
        own_shards(own_shards),
        shards(rows, width, own_shards),
        ranks(rows, width, on.size()),
        own(rows, width),
        part(rows, width),
        messages(on.size()),
        requests(2 * messages.size(), MPI_REQUEST_NULL),
        statuses(requests.size()) {
    const std::size_t words = static_cast<std::size_t>(most) * row_words;
    agree(comm, [&] {
      require(words < comm.largest_message(), "rows of {} MiB are more than a message holds",
              words * sizeof(float) >> 20);
    });
    for (std::vector<float>& message : messages) message.resize(words);
  }

  /// Row by row its number and its values.
  std::size_t pack(const SparseRows& rows, std::vector<float>& message) const {
    const auto numbers = rows.numbers();
    expect(numbers.size() * row_words <= message.size(), "more rows than there is room for");
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      float* to = message.data() + i * row_words;
      std::memcpy(to, &numbers[i], sizeof *to);
      std::copy_n(rows.values(i), row_words - 1, to + 1);
    }
    return numbers.size() * row_words;
  }
  void unpack(const std::vector<float>& message, std::size_t words, SparseRows& rows) const {
    for (const float* from = message.data(); from < message.data() + words; from += row_words) {
      std::int32_t number;
      std::memcpy(&number, from, sizeof number);
      std::copy_n(from + 1, row_words - 1, rows.row(number));
    }
  }

  Rest rest;
  Comm comm;
  std::size_t row_words;
  int own_shards;
  RowSum shards, ranks;
  SparseRows own, part;  ///< this rank's sum, and of another's while it is added
  std::vector<std::vector<float>> messages;  ///< by rank
  std::vector<MPI_Request> requests;         ///< receives by rank, then sends
  std::vector<MPI_Status> statuses;
  std::vector<std::int32_t> written;  ///< rows of the table that are not zeros
  bool done = true;
};

RowReducer::RowReducer(const Comm& comm, std::int64_t rows, std::int64_t width, int own_shards,
                       std::int64_t most)
    : body_(std::make_unique<Body>(comm, rows, width, own_shards, most)) {}

RowReducer::~RowReducer() = default;

void RowReducer::take(int shard, SparseRows& rows) {
  Body& b = *body_;
  b.shards.take(shard, rows);
  if (shard < b.own_shards - 1) return;
  std::swap(b.own, rows);
  rows.clear();
  b.done = false;
  const int me = b.comm.rank(), size = b.comm.size();
  if (size == 1) return;
  for (int rank = 0; rank < size; ++rank) {
    if (rank == me) continue;
    std::vector<float>& message = b.messages[rank];
    check(MPI_Irecv(message.data(), static_cast<int>(message.size()), MPI_FLOAT, rank, 0,
                    raw(b.comm), &b.requests[rank]));
  }
  const auto words = static_cast<int>(b.pack(b.own, b.messages[me]));
  for (int i = 1; i < size; ++i) {  // not all to the same one first
    const int rank = (me + i) % size;
    check(MPI_Isend(b.messages[me].data(), words, MPI_FLOAT, rank, 0, raw(b.comm),
                    &b.requests[size + rank]));
  }
}

bool RowReducer::advance() {
  Body& b = *body_;
  if (b.done) return true;
  int done = 0;
  check(MPI_Testall(static_cast<int>(b.requests.size()), b.requests.data(), &done,
                    b.statuses.data()));
  b.done = done != 0;
  return b.done;
}

void RowReducer::finish(float* table) {
  Body& b = *body_;
  b.rest.begin();
  while (!advance()) b.rest.between();
  for (int rank = 0; rank < b.comm.size(); ++rank) {
    b.part.clear();
    if (rank == b.comm.rank()) {
      std::swap(b.part, b.own);
    } else {
      int words = 0;
      check(MPI_Get_count(&b.statuses[rank], MPI_FLOAT, &words));
      b.unpack(b.messages[rank], words, b.part);
    }
    b.ranks.take(rank, b.part);
  }
  const auto width = static_cast<std::int64_t>(b.row_words - 1);
  for (const std::int32_t row : b.written) std::fill_n(table + row * width, width, 0.0f);
  const auto numbers = b.part.numbers();
  for (std::size_t i = 0; i < numbers.size(); ++i)
    std::copy_n(b.part.values(i), width, table + numbers[i] * width);
  b.written.assign(numbers.begin(), numbers.end());
  b.part.clear();
  b.own.clear();
}

std::size_t RowReducer::bytes() const {
  const Body& b = *body_;
  std::size_t total = b.shards.bytes() + b.ranks.bytes() + b.own.bytes() + b.part.bytes();
  for (const auto& message : b.messages) total += message.size() * sizeof(float);
  return total;
}

}  // namespace lockstep
