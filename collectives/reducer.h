// Reducer: sums the gradients of all ranks, bucket by bucket, in place, while others are still
// being written.
//
// Per step and bucket: written() says that the work which writes this rank's part has been given,
// start() begins the sum, and once done() the sum is in order: what stream() is given from then on
// finds it. On the CPU work is done when it is given, so that there written() says nothing new, and
// the sum is there when it is done().
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
#include "src/device/device.h"

namespace lockstep {

/// Properties of a reducer.
struct ReducerTraits {
  /// "tree": the name in the menu.
  std::string_view name = {};
  /// For the start-up summary: "shared (4 ranks on one host, 2.1 MiB window each)".
  std::string description = {};
  /// Memory that this rank comes to hold for it, gradients included; of a window that several ranks
  /// see, all that they touch.
  std::size_t bytes = 0;
  /// The sum is formed in the canonical order over ranks (schedule.h), so that it does not depend
  /// on how many ranks share the shards.
  bool canonical = false;
  /// start(), advance() and finish() call MPI: a thread that runs them beside others needs
  /// MPI_THREAD_MULTIPLE.
  bool speaks_mpi = false;
  /// start() alone suffices: done() is true right after it, and all order is in the streams.
  bool in_stream = false;
  /// The residual of rounding this rank's sums for the wire
  /// (collectives/reducers/direct_all_reduce.h): as many floats as gradients(), of the host. The
  /// next sums include it. It is a part of the state of a run: between steps the caller may read
  /// and write it. Null if nothing is rounded here.
  float* residual = nullptr;
};

/// Sums fp32 gradients over the ranks. Buckets are the ranges given at construction; all ranks
/// start them in the same order. All calls but written() come from one thread at a time. Between
/// finish(bucket) and the next start(bucket) the gradients belong to the caller; between start and
/// finish to the reducer. MPI failures throw Error.
class Reducer {
 public:
  virtual ~Reducer() = default;

  /// Where this rank writes its gradients: `count` floats as asked for at construction, memory of
  /// the device, zeroed, 4096-aligned, owned here.
  virtual float* gradients() = 0;
  /// All that `writer` was given so far includes this rank's part of the bucket. Compute thread;
  /// may run beside the other calls.
  virtual void written(int bucket, Stream& writer) = 0;
  /// After written(): begins to sum the bucket. Never blocks for long.
  virtual void start(int bucket) = 0;
  /// Moves all started buckets on without blocking. Returns whether anything is still under way.
  virtual bool advance() = 0;
  /// Whether the sum of the bucket, once started, is in order (advance() makes it so).
  virtual bool done(int bucket) const = 0;
  /// Blocks the host until done(bucket), once started. The sum is that of all ranks, bit for bit
  /// the same on each of them.
  virtual void finish(int bucket) = 0;
  /// Where the work that reads the sums is given.
  virtual Stream& stream() = 0;
  const ReducerTraits& traits() const { return traits_; }

 protected:
  ReducerTraits traits_;  ///< set in the constructor, never changed after it
};

/// What a reducer is made for.
struct ReducerSpec {
  /// The reducer's own: nobody else sends on it.
  Comm comm;
  /// Whose memory the gradients are in. Outlives the reducer.
  Device& device;
  /// Elements of the whole gradient arena.
  std::int64_t count = 0;
  /// Disjoint parts of [0, count), in the order in which they will be started. They may lie in any
  /// order in memory, may be empty, and may leave elements out.
  std::vector<Range> buckets;
  /// Why this reducer was chosen, for its description; set by make_reducer for "auto".
  std::string why = {};
  /// The same sums, bit for bit, in every run like this one.
  bool deterministic = false;
  /// The cost of messages between hosts. Null: "auto" measures it.
  std::optional<Link> link = {};
  /// Whether "auto" is to be one that adds in the canonical order.
  bool canonical = false;
  /// What connecting, or a call that is to begin something, may take.
  double timeout_seconds = 60;
  /// Thread blocks (CTAs) that a sum of NCCL may take from the backward pass. 0: its own choice.
  int nccl_max_ctas = 0;
  /// Of the numbers in messages: fp32, or 16 bits with error feedback, for reducers that may.
  /// Within a host none are sent.
  Type wire = Type::f32;
  /// What is beyond the largest number of the wire crosses as infinity, for a scale of the loss to
  /// be lowered, and not as that number, with the rest kept back.
  bool overflows = false;
  /// So many elements at the begin of the gradients cross in fp32 in any case.
  std::int64_t exact = 0;
  /// Each bucket is finished before the next is started; else several are under way at once, as
  /// those of a backward pass are. What "auto" tries, it tries likewise.
  bool one_by_one = false;
};

struct ReducerEntry {
  static constexpr std::string_view kind = "reducer";
  std::string_view name;
  std::string_view about;
  /// Collective; fails on all ranks alike.
  std::function<std::unique_ptr<Reducer>(const ReducerSpec&)> make;
  /// Sums in memory of a device, for which the others are staged.
  bool on_device = false;
  /// spec.wire may be of 16 bits.
  bool rounds = false;
};

/// The menu: the kinds of reducers that were built, then one that carries out each of algorithms().
std::span<const ReducerEntry> reducers();
/// The one called `name`. Throws the usage Error for an unknown name.
const ReducerEntry& find_reducer(std::string_view name);

/// The reducer called `name`, or for "auto" the one that suits the ranks: in memory of the host on
/// one host shared, on several hierarchical or the fastest of some that are tried, in canonical
/// order; in memory of devices as collectives/reducers/device_choice.h says. One of the host is
/// staged where that may not touch the device's memory. Throws the same Error on all ranks where it
/// cannot run, with the reason. All ranks pass the same `name` and `spec`; only `device`, `why`,
/// `timeout_seconds` and `nccl_max_ctas` may differ. Else all throw an Error that names the two
/// ranks and the two values. Collective.
std::unique_ptr<Reducer> make_reducer(std::string_view name, const ReducerSpec& spec);

}  // namespace lockstep
