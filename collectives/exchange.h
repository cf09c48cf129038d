// Exchange: the sum of one bucket over the ranks by messages, step after step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/comm/communicator.h"

namespace lockstep {

/// Long messages are sent in chunks, so that one chunk is added while the next arrives. Open MPI
/// over TCP sends up to 64 KiB with its header at once. It sends the rest of a longer message when
/// the receiver asks for it. If both ranks of a pair send, such a request waits for the data that
/// its rank sends, which costs a third to a half of a slow link's bandwidth. Chunks between hosts
/// are therefore shorter. (Data that arrives early waits in MPI's memory.) Within a host MPI copies
/// long messages once and short ones twice.
inline constexpr std::size_t kChunkWithinHost = 256 << 10, kChunkBetweenHosts = 60 << 10;

/// Rounds of messages. Allocates all memory at construction. Several exchanges with different tags
/// may be under way on one communicator. One thread at a time. MPI failures throw Error. It is
/// destroyed while under way only by an exception that ends the process.
class Exchange {
 public:
  /// `chunk`: bytes of a chunk of a message, whole floats. `tag`: used by no other exchange of
  /// `comm`. Both are the same on all ranks.
  Exchange(const Comm& comm, std::size_t chunk, int tag) : comm_(comm), chunk_(chunk), tag_(tag) {}
  virtual ~Exchange() = default;
  /// Starts the sum of `rows`, this rank's parts of the bucket, to `sum`, which may be one of them.
  /// All belong to the exchange until done().
  virtual void start(std::span<float* const> rows, float* sum) = 0;
  /// The same for one row that becomes the sum.
  void start(float* bucket) { start({&bucket, 1}, bucket); }
  /// Moves on as far as possible without blocking. With `wait` it blocks until at least one more
  /// message is complete. Returns whether anything is still under way.
  bool advance(bool wait = false);
  virtual bool done() const = 0;
  /// Bytes of its memory, without the bucket.
  virtual std::size_t bytes() const = 0;

 protected:
  /// The addition after a message has arrived.
  struct Addition {
    float* to;           ///< gets the floats that arrived added
    const float* from;   ///< these
    std::int64_t count;  ///< 0: none
  };

  /// Starts a message of this round to or from `peer`, in chunks. `sum`: null, or gets the floats
  /// that arrive added; `data` is then only staging.
  void post(bool send, int peer, void* data, std::size_t bytes, float* sum = nullptr);
  /// A further message of this round, which the caller starts at once.
  MPI_Request* message(const Addition& addition = {});

  const Comm comm_;  ///< of the constructor

 private:
  /// All messages of the round are complete. Starts the next round, or sets done().
  virtual void end_round() = 0;

  std::size_t chunk_;
  int tag_;
  std::vector<MPI_Request> pending_;  ///< of the round
  std::vector<Addition> additions_;   ///< additions_[i] belongs to pending_[i]
  std::vector<int> completed_;
  std::size_t left_ = 0;  ///< messages of the round that are under way
};

}  // namespace lockstep
