#include "collectives/comm/clock_offset.h"

#include <array>
#include <limits>

#include "collectives/comm/communicator.h"

namespace lockstep {
namespace {

constexpr int kPings = 20;

void send(const Comm& comm, std::span<const std::int64_t> values, int to) {
  check(MPI_Send(values.data(), static_cast<int>(values.size()), MPI_INT64_T, to, 0, raw(comm)));
}

void receive(const Comm& comm, std::span<std::int64_t> values, int from) {
  check(MPI_Recv(values.data(), static_cast<int>(values.size()), MPI_INT64_T, from, 0, raw(comm),
                 MPI_STATUS_IGNORE));
}

}  // namespace

ClockOffset clock_offset(const Comm& comm, const Comm& node,
                         const std::function<std::int64_t()>& clock) {
  const auto leads = static_cast<std::uint64_t>(node.rank() == 0);
  const std::vector<std::uint64_t> leaders = comm.all_gather(std::span(&leads, 1));
  std::array<std::int64_t, 2> own{};  // ns, error_ns
  std::array<std::int64_t, 1> there{};
  if (comm.rank() == 0) {
    const Waiting waiting;
    for (int rank = 1; rank < comm.size(); ++rank) {
      if (leaders[rank] == 0) continue;
      std::array best{std::int64_t{0}, std::numeric_limits<std::int64_t>::max()};
      for (int ping = 0; ping < kPings; ++ping) {
        const std::int64_t begin = clock();
        send(comm, there, rank);
        receive(comm, there, rank);
        const std::int64_t half = (clock() - begin + 1) / 2;
        if (half < best[1]) best = {begin + half - there[0], half};
      }
      send(comm, best, rank);
    }
  } else if (leads != 0) {
    const Waiting waiting;
    for (int ping = 0; ping < kPings; ++ping) {
      receive(comm, there, 0);
      there[0] = clock();
      send(comm, there, 0);
    }
    receive(comm, own, 0);
  }
  node.broadcast(std::span<std::int64_t>(own), 0);
  return {own[0], own[1]};
}

}  // namespace lockstep
