// Who turns the engine of the reducer while the backward pass runs.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace lockstep {

class Reducer;

/// Who advances the reducer during the backward pass. Buckets are started as soon as they are ready
/// under each of them.
enum class Policy {
  wait,    ///< nobody: all is done in finish()
  poll,    ///< the compute thread, whenever it calls advance() (after each layer)
  thread,  ///< as poll, and a thread of its own while the compute thread is inside a layer
  stream,  ///< nobody need: a bucket is done by being started, and the order is in the streams
};

struct PolicyEntry {
  static constexpr std::string_view kind = "progress policy";
  std::string_view name;
  std::string_view about;
  std::optional<Policy> policy;  ///< none for "auto"
};

std::span<const PolicyEntry> policies();

/// The policy to run `reducer` with. "auto" is poll for a reducer that speaks no MPI, else thread
/// where MPI_THREAD_MULTIPLE was granted (World::threads_allowed()), else poll; and stream for a
/// reducer that is in_stream(), which takes no other. Throws a usage error for a thread that MPI
/// does not allow, and for a policy that is not the reducer's.
Policy choose_policy(std::string_view name, const Reducer& reducer, bool threads_allowed);

}  // namespace lockstep
