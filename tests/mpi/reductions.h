// Shared by the tests of reducers: values whose sum depends on the order, and groups of ranks that
// act as hosts.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/comm/communicator.h"
#include "collectives/reducers/reducers.h"
#include "tests/mpi/world.h"

namespace lockstep {

using Floats = std::vector<float>;

/// Scattered over several powers of two, so that another order of addition gives other bits.
inline float random_value(int rank, int step, std::int64_t i) {
  auto word = static_cast<std::uint32_t>(i * 100 + rank * 10 + step + 1) * 2654435761u;
  word = (word ^ (word >> 15)) * 2246822519u;
  return static_cast<float>(static_cast<std::int32_t>(word ^ (word >> 13))) *
         std::ldexp(1.0f, static_cast<int>(i % 11) - 31);
}

/// The sum in the order that collectives/schedule.h defines.
inline float canonical_sum(Floats shards) {
  for (std::size_t d = 1; d < shards.size(); d *= 2) {
    for (std::size_t r = 0; r + d < shards.size(); r += 2 * d) shards[r] += shards[r + d];
  }
  return shards[0];
}

/// The reducer hierarchical, as if each group were a host.
inline std::unique_ptr<Reducer> make_on_groups(const ReducerSpec& spec, int group) {
  return make_hierarchical_on(spec, group_of(spec.comm, group));
}

}  // namespace lockstep
