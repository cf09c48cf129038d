// One maker per kind of reducer, for the menu in reducers.cc. Each is collective and fails on all
// ranks alike.
#pragma once

#include <memory>

#include "collectives/algorithms.h"
#include "collectives/reducer.h"

namespace lockstep {

/// Carries out `algorithm` over MPI messages.
std::unique_ptr<Reducer> make_scheduled_reducer(const AlgorithmEntry& algorithm,
                                                const ReducerSpec& spec);
/// MPI_Iallreduce, in place.
std::unique_ptr<Reducer> make_mpi_reducer(const ReducerSpec& spec);
/// Memory that all ranks of one host see.
std::unique_ptr<Reducer> make_shared_reducer(const ReducerSpec& spec);

/// Memory for the gradients of a reducer that has no wish of its own: 4096-aligned, zeroed, in huge
/// pages where there are some.
std::unique_ptr<float[], void (*)(float*)> allocate_gradients(std::int64_t count);

/// "2 ranks, chosen because ...": the end of every describe().
std::string describe_ranks(const ReducerSpec& spec);

}  // namespace lockstep
