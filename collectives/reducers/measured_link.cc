#include "collectives/reducers/measured_link.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "collectives/comm/communicator.h"
#include "collectives/exchange.h"
#include "collectives/sum.h"
#include "src/base/round_up.h"

namespace lockstep {
namespace {

using Clock = std::function<double()>;

constexpr int kLargest = 1 << 20;  // bytes in each direction at once
constexpr int kChunk = static_cast<int>(kChunkBetweenHosts);

/// The least time of `times` calls after one that does not count. (Other work on the machines only
/// makes messages later.)
template <class F>
double least_seconds(int times, const Clock& clock, F&& call) {
  call();
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < times; ++i) {
    const double begin = clock();
    call();
    least = std::min(least, clock() - begin);
  }
  return least;
}

/// Two ranks that send messages to each other. The first one measures; both make the same calls.
class Pair {
 public:
  Pair(const Comm& comm, int other) : comm_(raw(comm)), other_(other), first_(comm.rank() == 0) {}

  /// 8 bytes from the first rank, or to it.
  void message(bool there) {
    check(there == first_ ? MPI_Send(out_.data(), 8, MPI_CHAR, other_, 0, comm_)
                          : MPI_Recv(in_.data(), 8, MPI_CHAR, other_, 0, comm_, MPI_STATUS_IGNORE));
  }
  void round_trip() {
    message(true);
    message(false);
  }
  /// A message that starts it, and kLargest bytes in both directions, in chunks that are all under
  /// way at once, as exchanges send them. (Without that message, short chunks could arrive before
  /// the clock is read.)
  void exchange() {
    message(true);
    pending_.clear();
    for (const bool send : {false, true}) {
      for (int begin = 0; begin < kLargest; begin += kChunk) {
        const int length = std::min(kChunk, kLargest - begin);
        MPI_Request& request = pending_.emplace_back();
        check(send ? MPI_Isend(out_.data() + begin, length, MPI_CHAR, other_, 0, comm_, &request)
                   : MPI_Irecv(in_.data() + begin, length, MPI_CHAR, other_, 0, comm_, &request));
      }
    }
    check(MPI_Waitall(static_cast<int>(pending_.size()), pending_.data(), MPI_STATUSES_IGNORE));
  }

 private:
  Waiting waiting_;
  MPI_Comm comm_;
  int other_;
  bool first_;
  std::vector<char> out_ = std::vector<char>(kLargest), in_ = std::vector<char>(kLargest);
  std::vector<MPI_Request> pending_;
};

double measured_add_rate() {
  constexpr std::int64_t kCount = kLargest / sizeof(float);
  std::vector<float> to(kCount), from(kCount);
  const double seconds =
      least_seconds(5, now_seconds, [&] { add(to.data(), from.data(), kCount); });
  return kLargest / std::max(seconds, 1e-9);
}

}  // namespace

Link measure_link(const Comm& comm, const Comm& node, int rounds, const Clock& clock) {
  Link link;
  const std::int64_t second =
      comm.min(node.rank() == 0 && comm.rank() > 0 ? comm.rank() : INT32_MAX);
  if (second == INT32_MAX) return link;
  if (comm.rank() == 0 || comm.rank() == second) {
    const bool first = comm.rank() == 0;
    // The second rank makes the same calls, but its times do not count. One clock measures both
    // directions.
    const Clock own = first ? clock : [] { return 0.0; };
    Pair pair(comm, first ? static_cast<int>(second) : 0);
    link.latency = std::max(least_seconds(rounds, own, [&] { pair.round_trip(); }) / 2, 1e-9);
    const double seconds = least_seconds(ceil_div(rounds, 8), own, [&] { pair.exchange(); });
    link.bandwidth = kLargest / std::max(seconds - link.latency, 1e-9);
    link.add_rate = measured_add_rate();
  }
  std::array numbers{link.latency, link.bandwidth, link.add_rate};
  comm.broadcast(std::span<double>(numbers), 0);
  return {numbers[0], numbers[1], numbers[2]};
}

std::string describe(const Link& link) {
  return fmt::format("{:.0f} us and {:.3g} GB/s", link.latency * 1e6, link.bandwidth * 1e-9);
}

}  // namespace lockstep
