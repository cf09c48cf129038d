// Exchange: the sum of one bucket over the ranks by messages, step after step.
#pragma once

#include <cstddef>
#include <span>

namespace lockstep {

/// Long messages are sent in chunks, so that one chunk is added while the next arrives. Open MPI
/// over TCP sends up to 64 KiB with its header at once. It sends the rest of a longer message when
/// the receiver asks for it. If both ranks of a pair send, such a request waits for the data that
/// its rank sends, which costs a third to a half of a slow link's bandwidth. Chunks between hosts
/// are therefore shorter. (Data that arrives early waits in MPI's memory.) Within a host MPI copies
/// long messages once and short ones twice.
inline constexpr std::size_t kChunkWithinHost = 256 << 10, kChunkBetweenHosts = 60 << 10;

/// Allocates all memory at construction. Several exchanges with different tags may be under way on
/// one communicator. One thread at a time. MPI failures throw Error. It is destroyed while under
/// way only by an exception that ends the process.
class Exchange {
 public:
  virtual ~Exchange() = default;
  /// Starts the sum of `rows`, this rank's parts of the bucket, to `sum`, which may be one of them.
  /// All belong to the exchange until done().
  virtual void start(std::span<float* const> rows, float* sum) = 0;
  /// The same for one row that becomes the sum.
  void start(float* bucket) { start({&bucket, 1}, bucket); }
  /// Moves on as far as possible without blocking. With `wait` it blocks until at least one more
  /// message is complete. Returns whether anything is still under way.
  virtual bool advance(bool wait = false) = 0;
  virtual bool done() const = 0;
  /// Bytes of its memory, without the bucket.
  virtual std::size_t bytes() const = 0;
};

}  // namespace lockstep
