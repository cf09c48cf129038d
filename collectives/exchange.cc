// The engine of all exchanges. A round is a set of messages that post() has started. advance() adds
// what has arrived, and calls end_round() when nothing is left. end_round() posts the next round.
#include "collectives/exchange.h"

#include <algorithm>

#include "collectives/sum.h"

namespace lockstep {

/// Both ranks cut a message at the same places. MPI keeps the order of messages between two ranks
/// with one tag, so that the chunks need no numbers.
void Exchange::post(bool send, int peer, void* data, std::size_t bytes, float* sum) {
  for (std::size_t begin = 0; begin < bytes; begin += chunk_) {
    char* const place = static_cast<char*>(data) + begin;
    const int length = static_cast<int>(std::min(chunk_, bytes - begin));
    Addition addition = {};
    if (sum != nullptr) {
      const std::int64_t floats = length / static_cast<int>(sizeof(float));
      addition = {sum, reinterpret_cast<const float*>(place), floats};
      sum += floats;
    }
    check(send ? MPI_Isend(place, length, MPI_CHAR, peer, tag_, raw(comm_), message())
               : MPI_Irecv(place, length, MPI_CHAR, peer, tag_, raw(comm_), message(addition)));
  }
}

/// The pointer is valid until the next message. The vector may move later, because a request is
/// only a handle.
MPI_Request* Exchange::message(const Addition& addition) {
  additions_.push_back(addition);
  ++left_;
  return &pending_.emplace_back();
}

bool Exchange::advance(bool wait) {
  // A round without messages ends at once: the rank is idle in it, or has only local actions.
  while (!done()) {
    if (left_ > 0) {
      completed_.resize(pending_.size());
      int count = 1;
      const int all = static_cast<int>(pending_.size());
      // MPI sets a completed request to MPI_REQUEST_NULL and ignores it from then on. So the
      // indices of additions_ stay valid until the end of the round.
      // Not MPI_Waitsome, which takes simulated time in SimGrid.
      check(wait ? MPI_Waitany(all, pending_.data(), completed_.data(), MPI_STATUS_IGNORE)
                 : MPI_Testsome(all, pending_.data(), &count, completed_.data(),
                                MPI_STATUSES_IGNORE));
      for (int i = 0; i < count; ++i) {
        const Addition& addition = additions_[completed_[i]];
        add(addition.to, addition.from, addition.count);
      }
      left_ -= static_cast<std::size_t>(count);
      if (left_ > 0) return true;
    }
    pending_.clear();
    additions_.clear();
    end_round();
  }
  return false;
}

}  // namespace lockstep
