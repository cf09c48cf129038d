// clock_offset() of collectives/comm/comm.h.
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

}  // namespace

ClockOffset clock_offset(const Comm& comm, const Comm& node,
                         const std::function<std::int64_t()>& clock) {
  const int leads = node.rank() == 0 ? 1 : 0;
  const std::vector<int> leaders = comm.of_all(leads);
  ClockOffset own;
  if (comm.rank() == 0) {
    const Waiting waiting;
    // One rank after another: pings of several ranks would wait for each other, which would count
    // as time on the way.
    for (int rank = 1; rank < comm.size(); ++rank) {
      if (leaders[rank] == 0) continue;
      ClockOffset best{0, std::numeric_limits<std::int64_t>::max()};
      for (int ping = 0; ping < kPings; ++ping) {
        const std::int64_t begin = clock();
        send(comm, 0, rank);
        const std::int64_t there = receive(comm, rank);
        // Rounded up, because it is also the bound of the error.
        const std::int64_t half = (clock() - begin + 1) / 2;
        if (half < best.error_ns) best = {begin + half - there, half};
      }
      send(comm, best.ns, rank);
      send(comm, best.error_ns, rank);
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
  node.broadcast(std::span(&own, 1));
  return own;
}

}  // namespace lockstep
