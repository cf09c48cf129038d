// AllGather: each rank gets what each of the others has.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "collectives/comm/comm.h"
#include "collectives/schedule.h"

namespace lockstep {

/// Step after step. All memory is taken at construction. One thread at a time. MPI failures throw
/// Error. Destroyed under way only by an exception that ends the process.
class AllGather {
 public:
  /// Collective. `comm` is its own; `most`: bytes of one rank. If ranks pass different numbers, all
  /// throw the same error.
  AllGather(const Comm& comm, std::size_t most);
  ~AllGather();

  /// Where this rank's bytes go, `most` of them; zeroed at first, 4096-aligned. From start() until
  /// done() nobody writes there.
  std::byte* own();
  /// Begins to send the first `bytes` of own() to all others, and to receive theirs. Never blocks
  /// for long.
  void start(std::size_t bytes);
  void start();  ///< all of them
  /// Moves on without blocking. Returns whether it is done.
  bool advance();
  /// All that was started is sent and received (advance() makes it so).
  bool done() const;
  /// What `rank` has sent, this one too; once done(), until the next start(). 4096-aligned.
  std::span<std::byte> of(int rank);

  /// Of the memory.
  std::size_t bytes() const;

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

/// Seconds of an all-gather of `bytes` of each rank, by what the busiest host's link receives;
/// `ranks_on`: by host.
double cost_of_gather(std::span<const int> ranks_on, double bytes, const Link& link);

}  // namespace lockstep
