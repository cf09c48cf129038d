// The reducer direct: an all-reduce in two rounds of messages, in fp32 or in 16 bits.
//
//   scatter  every rank owns a part of the bucket, and gets the other ranks' rows of it
//   sum      the owner sums its part in fp32 and in the canonical order (shares.h)
//   gather   the owner sends its sum to all
//
// Both rounds send numbers that are rounded to the nearest number of the wire's type. The owner
// uses the rounded sum too, so that all ranks have bitwise identical sums. ERROR FEEDBACK: each
// rank keeps one rounding error per element, the residual, and adds it to its values in the next
// step. For parts of other ranks this is the error of the scatter, for its own part that of the
// gather. Stochastic rounding is not needed, because the feedback leaves no bias.
//
// Cost: two latencies, and a rank with R rows sends (R+1) (P-1)/P of the bucket in 2 (P-1) messages
// (cut into chunks, exchange.h). For few ranks.
//
// Source: H. Tang et al., "DoubleSqueeze: parallel stochastic gradient descent with double-pass
// error-compensated compression", 2019.
//
// The first spec.exact elements of the gradients are sent in fp32, at the beginning of each row.
// All ranks receive those of all others and add them in the same order. So they need no second
// round.
#include <algorithm>
#include <utility>

#include "collectives/reducers/reducers.h"
#include "collectives/rounding.h"
#include "collectives/sum.h"

namespace lockstep {
namespace {

constexpr std::int64_t kBlock = 512;  ///< floats of each row that are summed at a time

class DirectAllReduce : public Exchange {
 public:
  /// `bucket`: number of the bucket in `spec`. See make_direct_all_reduces().
  DirectAllReduce(const ReducerSpec& spec, int bucket, const Comm& comm, const Roots& roots,
                  float* residual, std::size_t chunk)
      : Exchange(comm, chunk, /*tag=*/bucket),
        order_(roots.rows()),
        fold_(roots.fold()),
        wire_(spec.wire) {
    const auto [begin, count] = spec.buckets[bucket];
    if (residual != nullptr) residual_ = residual + begin;
    const std::int64_t exact = exact_ = std::clamp<std::int64_t>(spec.exact - begin, 0, count);
    for (int rank = 0; rank < comm.size(); ++rank)
      parts_.push_back(part_of({exact, count - exact}, rank, comm.size(), kLineFloats));
    if (comm.size() == 1) return;
    // All messages have buffers of their own, because several buckets are under way at once. in_ of
    // this rank receives nothing. It is the place of the own sum, which the gather sends.
    for (const std::vector<Range>& rows : roots.of_rank) rows_of_.push_back(rows.size());
    for (int rank = 0; rank < comm.size(); ++rank) {
      out_.emplace_back(rows_of_[comm.rank()] * row_bytes(parts_[rank].count));
      in_.emplace_back(rows_of_[rank] * row_bytes(parts_[comm.rank()].count));
    }
    const auto length = static_cast<std::size_t>(std::max(kBlock, exact));
    block_.resize(length * order_.size());
    for (std::size_t row = 0; row < order_.size(); ++row)
      blocks_.push_back(block_.data() + row * length);
  }

  using Exchange::start;
  void start(std::span<float* const> rows, float* sum) override {
    rows_.assign(rows.begin(), rows.end());
    sum_ = sum;
    if (comm_.size() == 1) {
      expect(rows.size() == 1 && rows.front() == sum, "one rank has more than one root");
      return;
    }
    state_ = State::scatter;
    send_scatter();
  }

  bool done() const override { return state_ == State::done; }
  std::size_t bytes() const override {
    std::size_t total = block_.size() * sizeof(float);
    for (const auto* messages : {&out_, &in_})
      for (const std::vector<char>& message : *messages) total += message.size();
    return total;
  }

 private:
  enum class State { scatter, gather, done };

  /// Bytes of a row in a message. The exact elements are at its beginning.
  std::size_t row_bytes(std::int64_t elements) const {
    return exact_ * sizeof(float) + static_cast<std::size_t>(elements) * size_of(wire_);
  }
  char* outgoing(int rank, std::size_t row = 0) {
    return out_[rank].data() + row * row_bytes(parts_[rank].count);
  }
  char* incoming(int rank, std::size_t row = 0) {
    return in_[rank].data() + row * row_bytes(parts_[comm_.rank()].count);
  }
  float* residual(std::int64_t element) {
    return residual_ == nullptr ? nullptr : residual_ + element;
  }

  void end_round() override {
    if (state_ == State::scatter) {
      sum_exact();
      sum_own();
      state_ = State::gather;
      send_gather();
    } else {
      copy_gathered();
      state_ = State::done;
    }
  }

  /// Receives before sends, so that messages arrive in their final place. Sends to the next rank
  /// first, so that not all send to the same rank.
  void send_scatter() {
    const int ranks = comm_.size(), own = comm_.rank();
    const std::size_t head = row_bytes(0);
    for (int i = 1; i < ranks; ++i) {
      const int peer = (own + ranks - i) % ranks;
      post(false, peer, incoming(peer), rows_of_[peer] * row_bytes(parts_[own].count));
    }
    for (int i = 1; i < ranks; ++i) {
      const int peer = (own + i) % ranks;
      const Range range = parts_[peer];
      for (std::size_t row = 0; row < rows_.size(); ++row) {
        // With a residual there is one row, so that each element meets its residual once per step.
        char* const to = outgoing(peer, row);
        std::copy_n(rows_[row], exact_, reinterpret_cast<float*>(to));
        dispatch_wire(wire_, [&]<class T>(T*) {
          round_with_feedback(rows_[row] + range.begin, residual(range.begin),
                              reinterpret_cast<T*>(to + head), range.count);
        });
      }
      post(true, peer, outgoing(peer), rows_.size() * row_bytes(range.count));
    }
  }

  void sum_exact() {
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const auto [rank, row, shards] = order_[i];
      const float* const from =
          rank == comm_.rank() ? rows_[row] : reinterpret_cast<const float*>(incoming(rank, row));
      std::copy_n(from, exact_, blocks_[i]);
    }
    sum_rows(fold_, blocks_, {&sum_, 1}, exact_);
  }

  /// Adds the residual of this rank's own part, which it does not send, to its values.
  void sum_own() {
    const Range own = parts_[comm_.rank()];
    const std::size_t head = row_bytes(0);
    dispatch_wire(wire_, [&]<class T>(T*) {
      T* const sums = reinterpret_cast<T*>(incoming(comm_.rank()) + head);
      for (std::int64_t begin = 0; begin < own.count; begin += kBlock) {
        const std::int64_t count = std::min(kBlock, own.count - begin);
        float* const own_residual = residual(own.begin + begin);
        for (std::size_t i = 0; i < order_.size(); ++i) {
          const auto [rank, row, shards] = order_[i];
          float* const block = blocks_[i];
          if (rank != comm_.rank()) {
            widen(reinterpret_cast<const T*>(incoming(rank, row) + head) + begin, block, count);
            continue;
          }
          // round_with_feedback() adds the residual to what it rounds, which is the sum here. The
          // own residual belongs to the own row. It is added to that row and then cleared, or it
          // would count twice.
          widen(rows_[row] + own.begin + begin, block, count);
          if (own_residual == nullptr) continue;
          add(block, own_residual, count);
          std::fill_n(own_residual, count, 0.0f);
        }
        sum_rows(fold_, blocks_, {blocks_.data(), 1}, count);
        round_with_feedback(blocks_.front(), own_residual, sums + begin, count);
        widen(sums + begin, sum_ + own.begin + begin, count);
      }
    });
  }

  void send_gather() {
    // The messages of the scatter are complete, so out_ is free. A row of it has room for the sum
    // of its owner. The heads are left out, because every rank has summed the exact elements
    // itself.
    const int ranks = comm_.size(), own = comm_.rank();
    const std::size_t head = row_bytes(0);
    const auto bytes = [&](int owner) { return row_bytes(parts_[owner].count) - head; };
    for (int i = 1; i < ranks; ++i) {
      const int peer = (own + ranks - i) % ranks;
      post(false, peer, outgoing(peer) + head, bytes(peer));
    }
    for (int i = 1; i < ranks; ++i) post(true, (own + i) % ranks, incoming(own) + head, bytes(own));
  }

  void copy_gathered() {
    const std::size_t head = row_bytes(0);
    dispatch_wire(wire_, [&]<class T>(T*) {
      for (int rank = 0; rank < comm_.size(); ++rank) {
        if (rank == comm_.rank()) continue;
        const Range range = parts_[rank];
        widen(reinterpret_cast<const T*>(outgoing(rank) + head), sum_ + range.begin, range.count);
      }
    });
  }

  std::vector<Roots::Row> order_;  ///< of all ranks
  Fold fold_;                      ///< of order_
  std::int64_t exact_;
  Type wire_;
  float* residual_ = nullptr;         ///< of the bucket
  std::vector<Range> parts_;          ///< by owner
  std::vector<std::size_t> rows_of_;  ///< by rank: how many
  /// By rank: messages of the scatter. Gather: in_ has this rank's sum, out_ those of the others.
  std::vector<std::vector<char>> out_, in_;
  std::vector<float> block_;    ///< a block of each row
  std::vector<float*> blocks_;  ///< by number in order_
  std::vector<float*> rows_;    ///< of this rank
  float* sum_ = nullptr;
  State state_ = State::done;
};

}  // namespace

std::unique_ptr<Reducer> make_direct_reducer(const ReducerSpec& spec) {
  Memory residual = make_residual(spec, spec.comm.size());
  // With 16 bits each rank has one residual per element, and so one row. The values that are
  // rounded depend on the number of ranks, so that the sum is not canonical.
  const bool canonical = spec.wire == Type::f32 || spec.comm.size() == 1;
  const Roots roots = canonical ? roots_of(spec) : Roots::one_each(spec.comm.size());
  const auto make = [spec, at = reinterpret_cast<float*>(residual.get())](const Roots& rows) {
    return make_direct_all_reduces(spec, spec.comm, rows, at, chunk_for(spec.comm));
  };
  return make_exchange_reducer(spec, "direct", canonical, roots, make, std::move(residual));
}

Memory make_residual(const ReducerSpec& spec, int senders) {
  if (spec.wire == Type::f32 || senders == 1) return Memory();
  return spec.device.allocate(spec.count * sizeof(float), Place::host);
}

Exchanges make_direct_all_reduces(const ReducerSpec& spec, const Comm& comm, const Roots& roots,
                                  float* residual, std::size_t chunk) {
  Exchanges sums;
  for (int bucket = 0; bucket < std::ssize(spec.buckets); ++bucket) {
    sums.push_back(std::make_unique<DirectAllReduce>(spec, bucket, comm, roots, residual, chunk));
  }
  return sums;
}

}  // namespace lockstep
