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
#include <algorithm>
#include <cstring>
#include <utility>

#include "collectives/comm/communicator.h"
#include "collectives/reducers/reducers.h"
#include "collectives/rounding.h"
#include "collectives/sum.h"
#include "src/base/round_up.h"

namespace lockstep {
namespace {

constexpr std::int64_t kBlock = 512;  ///< floats of each row that are summed at a time

class DirectAllReduce : public Exchange {
 public:
  DirectAllReduce(const Comm& comm, const Roots& roots, std::int64_t count, std::int64_t exact,
                  Type wire, float* residual, std::size_t chunk, int tag)
      : comm_(comm),
        order_(roots.rows()),
        fold_(roots.fold()),
        exact_(exact),
        wire_(wire),
        residual_(residual),
        chunk_(chunk),
        tag_(tag) {
    for (int rank = 0; rank < comm.size(); ++rank)
      parts_.push_back(part_of({exact, count - exact}, rank, comm.size(), kLineFloats));
    if (comm.size() == 1) return;
    std::size_t out = 0, in = 0;
    for (const std::vector<Range>& rows : roots.of_rank) rows_of_.push_back(rows.size());
    for (int rank = 0; rank < comm.size(); ++rank) {
      out_at_.push_back(out);
      out += round_up(rows_of_[comm.rank()] * row_bytes(part(rank).count), std::size_t{64});
    }
    for (int rank = 0; rank < comm.size(); ++rank) {
      in_at_.push_back(in);
      in += round_up(rows_of_[rank] * row_bytes(part(comm.rank()).count), std::size_t{64});
    }
    out_.resize(out);
    in_.resize(in);
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

  bool advance(bool wait) override {
    while (!done()) {
      if (left_ > 0) {
        completed_.resize(pending_.size());
        int count = 0;
        const auto test = wait ? MPI_Waitsome : MPI_Testsome;
        check(test(static_cast<int>(pending_.size()), pending_.data(), &count, completed_.data(),
                   MPI_STATUSES_IGNORE));
        left_ -= static_cast<std::size_t>(count);
        if (left_ > 0) return true;
      }
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
    return false;
  }
  bool done() const override { return state_ == State::done; }
  std::size_t bytes() const override {
    return out_.size() + in_.size() + block_.size() * sizeof(float);
  }

 private:
  enum class State { scatter, gather, done };

  /// Bytes of a row in a message. The exact elements are at its beginning.
  std::size_t row_bytes(std::int64_t elements) const {
    return exact_ * sizeof(float) + static_cast<std::size_t>(elements) * size_of(wire_);
  }
  char* outgoing(int rank, std::size_t row = 0) {
    return out_.data() + out_at_[rank] + row * row_bytes(part(rank).count);
  }
  char* incoming(int rank, std::size_t row = 0) {
    return in_.data() + in_at_[rank] + row * row_bytes(part(comm_.rank()).count);
  }
  Range part(int rank) const { return parts_[rank]; }
  float* residual(std::int64_t element) {
    return residual_ == nullptr ? nullptr : residual_ + element;
  }

  void post(bool send, int peer, char* memory, std::size_t bytes) {
    for (std::size_t begin = 0; begin < bytes; begin += chunk_) {
      const int length = static_cast<int>(std::min(chunk_, bytes - begin));
      MPI_Request& request = pending_.emplace_back();
      char* const place = memory + begin;
      check(send ? MPI_Isend(place, length, MPI_CHAR, peer, tag_, raw(comm_), &request)
                 : MPI_Irecv(place, length, MPI_CHAR, peer, tag_, raw(comm_), &request));
    }
    left_ = pending_.size();
  }

  /// Receives before sends, so that messages arrive in their final place. Sends to the next rank
  /// first, so that not all send to the same rank.
  void send_scatter() {
    const int ranks = comm_.size(), own = comm_.rank();
    const std::size_t head = row_bytes(0);
    pending_.clear();
    for (int i = 1; i < ranks; ++i) {
      const int peer = (own + ranks - i) % ranks;
      post(false, peer, incoming(peer), rows_of_[peer] * row_bytes(part(own).count));
    }
    for (int i = 1; i < ranks; ++i) {
      const int peer = (own + i) % ranks;
      const Range range = part(peer);
      for (std::size_t row = 0; row < rows_.size(); ++row) {
        char* const to = outgoing(peer, row);
        std::memcpy(to, rows_[row], head);
        dispatch_wire(wire_, [&]<class T>(T*) {
          round_with_feedback(rows_[row] + range.begin, residual(range.begin),
                              reinterpret_cast<T*>(to + head), range.count);
        });
      }
      post(true, peer, outgoing(peer), rows_.size() * row_bytes(range.count));
    }
  }

  void sum_exact() {
    const std::size_t head = row_bytes(0);
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const auto [rank, row, shards] = order_[i];
      const void* const from =
          rank == comm_.rank() ? static_cast<void*>(rows_[row]) : incoming(rank, row);
      std::memcpy(blocks_[i], from, head);
    }
    sum_rows(fold_, blocks_, {&sum_, 1}, exact_);
  }

  /// Adds the residual of this rank's own part, which it does not send, to its values.
  void sum_own() {
    const Range own = part(comm_.rank());
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
    const int ranks = comm_.size(), own = comm_.rank();
    const std::size_t head = row_bytes(0);
    const auto bytes = [&](int owner) { return row_bytes(part(owner).count) - head; };
    pending_.clear();
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
        const Range range = part(rank);
        widen(reinterpret_cast<const T*>(outgoing(rank) + head), sum_ + range.begin, range.count);
      }
    });
  }

  Comm comm_;
  std::vector<Roots::Row> order_;  ///< of all ranks
  Fold fold_;                      ///< of order_
  std::int64_t exact_;
  Type wire_;
  float* residual_;
  std::size_t chunk_;
  int tag_;
  std::vector<Range> parts_;                 ///< by owner
  std::vector<std::size_t> rows_of_;         ///< by rank: how many
  std::vector<std::size_t> out_at_, in_at_;  ///< by rank: offset of its message
  std::vector<char> out_, in_;  ///< messages of the scatter; gather: in_ has this rank's sum
  std::vector<float> block_;    ///< a block of each row
  std::vector<float*> blocks_;  ///< by number in order_
  std::vector<float*> rows_;    ///< of this rank
  float* sum_ = nullptr;
  State state_ = State::done;
  std::vector<MPI_Request> pending_;
  std::vector<int> completed_;
  std::size_t left_ = 0;  ///< messages that are under way
};

}  // namespace

std::unique_ptr<Exchange> make_direct_all_reduce(const Comm& comm, const Roots& roots,
                                                 std::int64_t count, std::int64_t exact, Type wire,
                                                 float* residual, std::size_t chunk, int tag) {
  return std::make_unique<DirectAllReduce>(comm, roots, count, exact, wire, residual, chunk, tag);
}

std::unique_ptr<Reducer> make_direct_reducer(const ReducerSpec& spec) {
  Memory residual = make_residual(spec, spec.comm.size());
  const bool canonical = spec.wire == Type::f32 || spec.comm.size() == 1;
  const Roots roots = canonical ? roots_of(spec) : Roots::one_each(spec.comm.size());
  const auto make = [spec, at = reinterpret_cast<float*>(residual.get())](const Roots& rows) {
    return make_direct_all_reduces(spec, spec.comm, rows, at);
  };
  return make_exchange_reducer(spec, "direct", canonical, roots, make, std::move(residual));
}

Memory make_residual(const ReducerSpec& spec, int senders) {
  if (spec.wire == Type::f32 || senders == 1) return Memory();
  return spec.device.allocate(spec.count * sizeof(float), Place::host);
}

Exchanges make_direct_all_reduces(const ReducerSpec& spec, const Comm& comm, const Roots& roots,
                                  float* residual) {
  Exchanges sums;
  const std::size_t chunk = chunk_for(comm);
  for (const Range& bucket : spec.buckets) {
    const std::int64_t exact = std::clamp<std::int64_t>(spec.exact - bucket.begin, 0, bucket.count);
    sums.push_back(make_direct_all_reduce(comm, roots, bucket.count, exact, spec.wire,
                                          residual == nullptr ? nullptr : residual + bucket.begin,
                                          chunk, static_cast<int>(sums.size())));
  }
  return sums;
}

}  // namespace lockstep
