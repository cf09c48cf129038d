#include "collectives/progress.h"

#include "collectives/reducer.h"
#include "src/base/table.h"

namespace lockstep {
namespace {

constexpr PolicyEntry kPolicies[] = {
    {"auto", "poll for reducers that speak no MPI, else thread where MPI allows it, else poll",
     std::nullopt},
    {"wait", "nobody: gradients are reduced after the backward pass", Policy::wait},
    {"poll", "the compute thread, after each layer", Policy::poll},
    {"thread", "as poll, and a thread of its own within layers (needs MPI_THREAD_MULTIPLE)",
     Policy::thread},
    {"stream", "nobody: the order is in the streams (for reducers of a device)", Policy::stream},
};

}  // namespace

std::span<const PolicyEntry> policies() { return kPolicies; }

Policy choose_policy(std::string_view name, const Reducer& reducer, bool threads_allowed) {
  const ReducerTraits& traits = reducer.traits();
  const Policy automatic = traits.in_stream                       ? Policy::stream
                           : traits.speaks_mpi && threads_allowed ? Policy::thread
                                                                  : Policy::poll;
  const Policy policy = find(policies(), name).policy.value_or(automatic);
  if ((policy == Policy::stream) != traits.in_stream) {
    fail_usage("--progress {} is not for the reducer {}: leave it out, or say auto", name,
               traits.name);
  }
  if (policy == Policy::thread && traits.speaks_mpi && !threads_allowed) {
    fail_usage(
        "--progress thread needs an MPI that grants MPI_THREAD_MULTIPLE, and this one does not: "
        "choose poll or wait");
  }
  return policy;
}

}  // namespace lockstep
