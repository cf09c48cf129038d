#include "collectives/progress.h"

#include "collectives/reducer.h"
#include "src/base/table.h"

namespace lockstep {
namespace {

constexpr PolicyEntry kPolicies[] = {
    {"auto", "thread for reducers that call MPI if MPI allows it, else poll", std::nullopt},
    {"wait", "no overlap: gradients are reduced after the backward pass", Policy::wait},
    {"poll", "the compute thread, after each layer", Policy::poll},
    {"thread", "as poll, and a thread within layers (needs MPI_THREAD_MULTIPLE)", Policy::thread},
    {"stream", "the GPU's streams (only --reducer nccl)", Policy::stream},
};

}  // namespace

std::span<const PolicyEntry> policies() { return kPolicies; }

Policy choose_policy(std::string_view name, const Reducer& reducer, bool threads_allowed) {
  const ReducerTraits& traits = reducer.traits();
  Policy automatic = traits.calls_mpi && threads_allowed ? Policy::thread : Policy::poll;
  if (traits.in_stream) automatic = Policy::stream;
  const Policy policy = find(policies(), name).policy.value_or(automatic);
  if (policy == Policy::stream && !traits.in_stream)
    fail_usage("--progress stream needs --reducer nccl. Pass --progress auto.");
  if (policy != Policy::stream && traits.in_stream) {
    fail_usage("--progress {} does not work with NCCL. Pass --progress auto, or another --reducer.",
               name);
  }
  if (policy == Policy::thread && traits.calls_mpi && !threads_allowed) {
    fail_usage(
        "--progress thread needs MPI_THREAD_MULTIPLE, which this MPI does not grant. Pass poll or "
        "wait.");
  }
  return policy;
}

}  // namespace lockstep
