// DirectAllReduce: an all-reduce in two rounds of messages, in fp32 or in 16 bits.
//
//   scatter  every rank owns a part of the bucket, and gets the other ranks' values of it
//   sum      the owner sums its part in fp32 and in the canonical order (schedule.h)
//   gather   the owner sends its sum to all
//
// Both rounds send numbers that are rounded to the nearest number of the wire's type. The owner
// uses the rounded sum too, so that all ranks have bitwise identical sums. ERROR FEEDBACK: each
// rank keeps one rounding error per element, the residual, and adds it to its values in the next
// step. For parts of other ranks this is the error of the scatter, for its own part that of the
// gather. Stochastic rounding is not needed, because the feedback leaves no bias.
//
// Cost: two latencies, and each rank sends 2 (P-1)/P of the bucket in 2 (P-1) messages (cut into
// chunks, exchange.h). For few ranks.
//
// Source: H. Tang et al., "DoubleSqueeze: parallel stochastic gradient descent with double-pass
// error-compensated compression", 2019.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/comm/communicator.h"
#include "collectives/exchange.h"
#include "src/base/view.h"

namespace lockstep {

class DirectAllReduce : public Exchange {
 public:
  /// For buckets of `count` elements and messages of type `wire`. Every rank gets the first `exact`
  /// elements in fp32 and sums them. `residual`: `count` floats that outlive this, zeros before the
  /// first step; null with fp32. `overflows`: see ReducerSpec. `chunk`, `tag`: see ScheduleRun.
  DirectAllReduce(const Comm& comm, std::int64_t count, std::int64_t exact, Type wire,
                  bool overflows, float* residual, std::size_t chunk, int tag);

  void start(float* bucket) override;
  bool advance(bool wait = false) override;
  bool done() const override { return state_ == State::done; }
  std::size_t bytes() const override;

 private:
  enum class State { scatter, gather, done };

  std::size_t message_bytes(std::int64_t elements) const;
  char* outgoing(int rank) { return out_.data() + out_at_[rank]; }
  char* incoming(int rank) { return in_.data() + in_each_ * static_cast<std::size_t>(rank); }
  Range part(int rank) const { return parts_[rank]; }
  float* residual(std::int64_t element) {
    return residual_ == nullptr ? nullptr : residual_ + element;
  }
  void post(bool send, int peer, char* memory, std::size_t bytes);
  void send_scatter();
  void send_gather();
  void sum_exact();
  void sum_own();
  void copy_gathered();

  Comm comm_;
  std::int64_t exact_;
  Type wire_;
  bool overflows_;
  float* residual_;
  std::size_t chunk_;
  int tag_;
  std::vector<Range> parts_;         ///< by owner
  std::vector<std::size_t> out_at_;  ///< by rank: offset of its message in out_
  std::size_t in_each_;              ///< bytes from one rank's message to the next in in_
  std::vector<char> out_, in_;       ///< messages of the scatter; gather: in_ has this rank's sum
  std::vector<float> block_;         ///< a block of each rank's values
  std::vector<float*> rows_;         ///< by rank, in block_
  float* bucket_ = nullptr;
  State state_ = State::done;
  std::vector<MPI_Request> pending_;
  std::vector<int> completed_;
  std::size_t left_ = 0;  ///< messages that are under way
};

}  // namespace lockstep
