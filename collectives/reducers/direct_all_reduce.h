// DirectAllReduce: an all-reduce in two rounds of messages, whose numbers may cross in 16 bits.
//
//   there    every rank owns a part of the bucket, and gets the other ranks' values of it
//   the sum  of each part is formed by its owner, in fp32 and in the canonical order (schedule.h)
//   back     the owner sends it to all
//
// What crosses is rounded to the nearest number of the wire's type, both ways, and the owner takes
// the rounded sum too, so that all ranks hold the same bits. ERROR FEEDBACK: what rounding takes
// away is kept where it was taken and added there to the values of the next step: nothing is lost,
// some of it comes later. A rank keeps one number for each element: of another's part what it did
// not send there, of its own part what it did not send back. No rounding at random: it would remove
// a bias that the feedback does not leave, and cost the bits their order.
//
// Cost: two latencies, and 2 (P-1)/P of the bucket in the wire's type sent by each rank, in 2 (P-1)
// messages (cut into chunks, exchange.h): for as many ranks as messages are cheap.
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
  /// Of `count` elements, of which the first `exact` cross in fp32 to everybody and are summed by
  /// each, with numbers of type `wire`. `kept`: `count` floats of the caller's that outlive this,
  /// zeros before the first step; null, and not needed, with fp32. `overflows`: as
  /// ReducerSpec::overflows. `chunk`, `tag`: as those of a ScheduleRun.
  DirectAllReduce(const Comm& comm, std::int64_t count, std::int64_t exact, Type wire,
                  bool overflows, float* kept, std::size_t chunk, int tag);

  void start(float* bucket) override;
  bool advance(bool wait = false) override;
  bool done() const override { return state_ == State::done; }
  std::size_t bytes() const override;

 private:
  enum class State { there, back, done };

  std::size_t message_bytes(std::int64_t elements) const;
  char* outgoing(int rank) { return out_.data() + out_at_[rank]; }
  char* incoming(int rank) { return in_.data() + in_each_ * static_cast<std::size_t>(rank); }
  Range part(int rank) const { return parts_[rank]; }
  float* kept(std::int64_t element) { return kept_ == nullptr ? nullptr : kept_ + element; }
  void post(bool send, int peer, char* memory, std::size_t bytes);
  void send_there();
  void send_back();
  void sum_exact();
  void sum_own();
  void take_back();

  Comm comm_;
  std::int64_t exact_;
  Type wire_;
  bool overflows_;
  float* kept_;
  std::size_t chunk_;
  int tag_;
  std::vector<Range> parts_;         ///< by owner
  std::vector<std::size_t> out_at_;  ///< by rank: of its message in out_
  std::size_t in_each_;              ///< bytes from one rank's message to the next in in_
  std::vector<char> out_, in_;       ///< there: to and from all; back: in_ holds this rank's sum
  std::vector<float> block_;         ///< a block of each rank's values
  std::vector<float*> rows_;         ///< by rank, in block_
  float* bucket_ = nullptr;
  State state_ = State::done;
  std::vector<MPI_Request> pending_;
  std::vector<int> completed_;
  std::size_t left_ = 0;  ///< of pending_
};

}  // namespace lockstep
