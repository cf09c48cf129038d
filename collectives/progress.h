// Progress policies: the thread that moves the reducer on during the backward pass.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace lockstep {

class Reducer;

/// Every policy starts a bucket as soon as it is ready. Until finish() the reducer is advanced by
enum class Policy {
  wait,    ///< no thread
  poll,    ///< the compute thread in advance(), after each layer
  thread,  ///< as poll, and a communication thread while the compute thread is inside a layer
  stream,  ///< no thread: a started bucket is done, and the order is in the streams
};

struct PolicyEntry {
  static constexpr std::string_view kind = "progress policy";
  std::string_view name;
  std::string_view about;
  std::optional<Policy> policy;  ///< none for "auto"
};

std::span<const PolicyEntry> policies();

/// The policy for `reducer`. "auto" is stream for a reducer that is in_stream, which supports no
/// other policy. It is thread for a reducer that calls MPI if MPI_THREAD_MULTIPLE was granted
/// (World::threads_allowed()), else poll. Throws a usage error for a thread that MPI does not
/// allow, and for a policy that the reducer does not support.
Policy choose_policy(std::string_view name, const Reducer& reducer, bool threads_allowed);

}  // namespace lockstep
