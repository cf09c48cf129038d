#include "collectives/comm/clock_offset.h"

#include <array>
#include <limits>

#include "collectives/comm/communicator.h"

namespace lockstep {
namespace {

constexpr int kPings = 20;

void send(const Comm& comm, std::int64_t value, int to) {
  check(MPI_Send(&value, 1, MPI_INT64_T, to, 0, raw(comm)));
}

std::int64_t receive(const Comm& comm, int from) {
  std::int64_t value = 0;
  check(MPI_Recv(&value, 1, MPI_INT64_T, from, 0, raw(comm), MPI_STATUS_IGNORE));
  return value;
}

/// On rank 0: how far `other` is behind.
ClockOffset ask(const Comm& comm, int other, const std::function<std::int64_t()>& clock) {
  ClockOffset best{0, std::numeric_limits<std::int64_t>::max()};
  for (int ping = 0; ping < kPings; ++ping) {
    const std::int64_t begin = clock();
    send(comm, 0, other);
    const std::int64_t there = receive(comm, other), half = (clock() - begin + 1) / 2;
    if (half < best.error_ns) best = {begin + half - there, half};
  }
  return best;
}

}  // namespace

ClockOffset clock_offset(const Comm& comm, const Comm& node,
                         const std::function<std::int64_t()>& clock) {
  const auto leads = static_cast<std::uint64_t>(node.rank() == 0);
  const std::vector<std::uint64_t> leaders = comm.all_gather(std::span(&leads, 1));
  ClockOffset own;
  if (comm.rank() == 0) {
    const Waiting waiting;
    for (int rank = 1; rank < comm.size(); ++rank) {
      if (leaders[rank] == 0) continue;
      const ClockOffset its = ask(comm, rank, clock);
      send(comm, its.ns, rank);
      send(comm, its.error_ns, rank);
    }
  } else if (leads != 0) {
    const Waiting waiting;
    for (int ping = 0; ping < kPings; ++ping) {
      receive(comm, 0);
      send(comm, clock(), 0);
    }
    own.ns = receive(comm, 0);
    own.error_ns = receive(comm, 0);
  }
  std::array numbers{own.ns, own.error_ns};
  node.broadcast(std::span<std::int64_t>(numbers), 0);
  return {numbers[0], numbers[1]};
}

}  // namespace lockstep
