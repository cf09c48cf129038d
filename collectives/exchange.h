// Exchange: the sum of one bucket over the ranks by messages, step after step.
#pragma once

#include <cstddef>

namespace lockstep {

class Comm;

/// Long messages go in chunks, so that one chunk is added while the next arrives. Open MPI over TCP
/// sends up to 64 KiB, with its header, at once; of longer messages it sends the rest when the
/// receiver has asked for it, and where both ranks of a pair send, what one asks for waits behind
/// what it sends, which takes a third to a half of a slow link's bandwidth: between hosts chunks
/// are shorter. (What comes before it is waited for lies in MPI's memory meanwhile.) Within a host
/// MPI copies long ones once and short ones twice.
inline constexpr std::size_t kChunkWithinHost = 256 << 10, kChunkBetweenHosts = 60 << 10;
/// Bytes of the chunks between the ranks of `comm`. Collective.
std::size_t chunk_for(const Comm& comm);

/// All memory is taken at construction. Several with different tags may be under way on one
/// communicator. One thread at a time. MPI failures throw Error. Destroyed under way only by an
/// exception that ends the process.
class Exchange {
 public:
  virtual ~Exchange() = default;
  /// Begins to sum `bucket`, which belongs to the exchange until it is done.
  virtual void start(float* bucket) = 0;
  /// Moves on as far as possible now; `wait`: until one more message has come through at least.
  /// Returns whether anything is left to do.
  virtual bool advance(bool wait = false) = 0;
  virtual bool done() const = 0;
  /// Of the memory besides the bucket.
  virtual std::size_t bytes() const = 0;
};

}  // namespace lockstep
