// Reducer: sums the gradients of all ranks in place, bucket by bucket, while the backward pass
// still writes other buckets.
//
// Per step and bucket: the caller enqueues the work that writes this rank's part in a stream, then
// calls written() and start(). After done(), work that is enqueued in stream() finds the sum. On
// the CPU work is done when it is enqueued: written() has no effect, and the sum is complete when
// done().
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/comm/comm.h"
#include "collectives/schedule.h"
#include "collectives/shares.h"
#include "src/device/device.h"

namespace lockstep {

/// Properties of a reducer.
struct ReducerTraits {
  /// The name in the registry: "tree".
  std::string_view name = {};
  /// For the start-up summary: "shared (4 ranks on one host, 2.1 MiB window each)".
  std::string description = {};
  /// Memory that this rank holds, with the gradients; includes all pages of a window that several
  /// ranks map.
  std::size_t bytes = 0;
  /// Adds ReducerSpec::roots in the canonical order (schedule.h), so that the sum does not depend
  /// on the shares of the ranks. Otherwise each rank has one row, the sum of all its shards.
  bool canonical = false;
  /// This rank's rows: memory like gradients(), one for each of its roots, of which the last is
  /// gradients().
  std::vector<float*> rows = {};
  /// start(), advance() and finish() call MPI. A second thread that calls them needs
  /// MPI_THREAD_MULTIPLE.
  bool calls_mpi = false;
  /// done() is true right after start(), because all order is in the streams.
  bool in_stream = false;
  /// The residual of 16-bit messages (collectives/reducers/direct.cc): as many floats of
  /// the host as gradients(). The next sums include it. It is part of the state of a run: the
  /// caller may read and write it between steps. Null if this rank rounds nothing.
  float* residual = nullptr;
};

/// Sums fp32 gradients over the ranks. The buckets are the ranges of ReducerSpec. All ranks start
/// them in the same order. Calls come from one thread at a time, except written(). The gradients of
/// a bucket belong to the reducer from start() to finish(), else to the caller. MPI failures throw
/// Error.
class Reducer {
 public:
  virtual ~Reducer() = default;

  /// This rank's gradients: ReducerSpec::count floats in memory of the device, zeroed,
  /// 4096-aligned, owned by the reducer. It is the last of its rows, and gets the sum.
  virtual float* gradients() = 0;
  /// The work in `writer` so far writes this rank's part of the bucket. Compute thread; may
  /// run beside the other calls.
  virtual void written(int bucket, Stream& writer) = 0;
  /// Starts the sum of the bucket, after written(). Does not wait for other ranks.
  virtual void start(int bucket) = 0;
  /// Moves all started buckets on without blocking. Returns whether any is still under way.
  virtual bool advance() = 0;
  /// Whether the sum of a started bucket is in order; advance() changes it.
  virtual bool done(int bucket) const = 0;
  /// Blocks the host until a started bucket is done. The sum is bitwise identical on all ranks.
  virtual void finish(int bucket) = 0;
  /// The stream for work that reads the sums.
  virtual Stream& stream() = 0;
  /// Collective, between two steps: the ranks have other rows from now on. gradients() stays where
  /// it is; the other rows of traits() change. Throws Error on all ranks if memory is short. Only
  /// with ReducerSpec::shares_change.
  virtual void share(const Roots& roots);
  /// Ends all sums in streams, after an error: one that waits for a dead rank would never end. No
  /// graph contains a sum, because NCCL waits for all such graphs. Does not block. Only the
  /// destructor may follow.
  virtual void abort() noexcept {}
  const ReducerTraits& traits() const { return traits_; }

 protected:
  ReducerTraits traits_;  ///< set in the constructor; only share() changes them
};

/// The arguments of make_reducer().
struct ReducerSpec {
  /// Only the reducer sends messages on it.
  Comm comm;
  /// The gradients are in its memory. Outlives the reducer.
  Device& device;
  /// Elements of the whole gradient arena.
  std::int64_t count = 0;
  /// Disjoint parts of [0, count), in the order in which they will be started. They may be in any
  /// order in memory, may be empty, and may leave out elements.
  std::vector<Range> buckets;
  /// Why this reducer was chosen, for its description; make_reducer() sets it for "auto".
  std::string why = {};
  /// The rows of each rank. Without any, each rank has one shard.
  Roots roots = {};
  /// Each repetition of the run gives bitwise identical sums.
  bool deterministic = false;
  /// The cost of messages between hosts. Null: "auto" measures it.
  std::optional<Link> link = {};
  /// "auto" selects a reducer that adds in the canonical order.
  bool canonical = false;
  /// The caller will call share().
  bool shares_change = false;
  /// Limit for connecting, and for calls that start work.
  double timeout_seconds = 60;
  /// The most thread blocks (CTAs) that NCCL may use for a sum; 0: NCCL's choice.
  int nccl_max_ctas = 0;
  /// Type of the numbers in messages between hosts: fp32, or 16 bits with error feedback if
  /// ReducerEntry::rounds. A number that overflows is sent as the largest number, and the residual
  /// keeps the rest.
  Type wire = Type::f32;
  /// Elements at the beginning of the gradients that are always sent in fp32.
  std::int64_t exact = 0;
  /// The caller makes two reducers whose sums may be under way at the same time. NCCL must then
  /// launch the sums of all communicators in one order.
  bool beside_another = false;
  /// The caller finishes each bucket before it starts the next. Else several are under way at once,
  /// as in a backward pass. "auto" measures in the same way.
  bool one_by_one = false;
};

struct ReducerEntry {
  static constexpr std::string_view kind = "reducer";
  std::string_view name;
  std::string_view about;
  /// Collective; fails on all ranks with the same error.
  std::function<std::unique_ptr<Reducer>(const ReducerSpec&)> make;
  /// Sums in GPU memory; the others sum in memory of the host.
  bool on_device = false;
  /// Supports 16 bits in spec.wire.
  bool rounds = false;
  /// Adds any shares of the ranks in canonical order, in fp32 and in memory of the host.
  bool any_shares = false;
};

/// The registry: the reducers of this build, then one per algorithm of algorithms().
std::span<const ReducerEntry> reducers();
/// The reducer `name`. Throws the usage Error for an unknown name.
const ReducerEntry& find_reducer(std::string_view name);

/// Makes the reducer `name`. "auto" selects one: in memory of the host shared on one host, and
/// between hosts hierarchical or the fastest of three, all in canonical order. For GPUs see
/// collectives/reducers/nccl.h; a single rank with a GPU adds nothing. A reducer of the
/// host is staged if the host may not touch the device's memory. Throws the same Error with the
/// reason on all ranks if it cannot run. All ranks pass the same `name` and `spec`, except
/// `device`, `why`, `timeout_seconds` and `nccl_max_ctas`; else all throw an Error that names the
/// ranks and the values. Collective.
std::unique_ptr<Reducer> make_reducer(std::string_view name, const ReducerSpec& spec);

}  // namespace lockstep
