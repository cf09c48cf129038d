// Pieces of an optimizer's step shared out over the ranks, by the host's memory.
#pragma once

#include "collectives/comm/comm.h"
#include "net/optimizer.h"

namespace lockstep {

/// Piece n is rank n mod size's, and a broadcast brings it to the others, who wait for it: nothing
/// of that is hidden. One thread.
class WorkOfRanks : public SharedWork {
 public:
  /// `comm` is for this alone.
  explicit WorkOfRanks(Comm comm) : comm_(std::move(comm)) {}

  bool mine(int number) const override { return owner(number) == comm_.rank(); }
  void share(Stream& stream, int number, float* values, std::int64_t count) override {
    stream.synchronize();
    comm_.broadcast(std::span(values, count), owner(number));
  }

 private:
  int owner(int number) const { return number % comm_.size(); }

  Comm comm_;
};

}  // namespace lockstep
