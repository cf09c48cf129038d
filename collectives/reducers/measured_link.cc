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
constexpr double kPatience = 0.1;  // seconds for each measurement

/// The least time of up to `times` calls that begin within kPatience, after one that does not
/// count. (Other work on the machines only makes messages later.)
template <class F>
double least_seconds(int times, const Clock& clock, F&& call) {
  call();
  double least = std::numeric_limits<double>::infinity();
  const double end = clock() + kPatience;
  for (int i = 0; i < times; ++i) {
    const double begin = clock();
    if (i > 0 && begin >= end) break;
    call();
    least = std::min(least, clock() - begin);
  }
  return least;
}

/// One of two ranks that measure. The other follows: each message tells it whether another follows.
class Pair {
 public:
  Pair(const Comm& comm, int other, const Clock& clock)
      : comm_(raw(comm)), other_(other), clock_(clock) {}

  /// Seconds for the message that starts an exchange, and for `bytes` in both directions at once.
  /// (Without that message, short chunks could arrive before the clock is read.)
  double exchange(int times, int bytes) {
    const double seconds = least_seconds(times, clock_, [&] {
      send(1);
      both_ways(bytes);
    });
    send(0);
    return seconds;
  }
  /// Seconds of 8 bytes in both directions, one after the other.
  double round_trip(int times) {
    const double seconds = least_seconds(times, clock_, [&] { there_and_back(1); });
    there_and_back(0);
    return seconds;
  }
  void follow() {
    while (answer()) continue;
    while (receive()) both_ways(kLargest);
  }

 private:
  /// In chunks that are all under way at once, as exchanges send them.
  void both_ways(int bytes) {
    pending_.clear();
    for (const bool send : {false, true}) {
      for (int begin = 0; begin < bytes; begin += kChunk) {
        const int length = std::min(kChunk, bytes - begin);
        MPI_Request& request = pending_.emplace_back();
        check(send ? MPI_Isend(out_.data() + begin, length, MPI_CHAR, other_, 0, comm_, &request)
                   : MPI_Irecv(in_.data() + begin, length, MPI_CHAR, other_, 0, comm_, &request));
      }
    }
    check(MPI_Waitall(static_cast<int>(pending_.size()), pending_.data(), MPI_STATUSES_IGNORE));
  }
  void send(char more) {
    out_[0] = more;
    check(MPI_Send(out_.data(), 8, MPI_CHAR, other_, 0, comm_));
  }
  bool receive() {
    check(MPI_Recv(in_.data(), 8, MPI_CHAR, other_, 0, comm_, MPI_STATUS_IGNORE));
    return in_[0] != 0;
  }
  void there_and_back(char more) {
    send(more);
    receive();
  }
  bool answer() {
    const bool more = receive();
    send(1);
    return more;
  }

  Waiting waiting_;
  MPI_Comm comm_;
  int other_;
  const Clock& clock_;
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
  if (comm.rank() == 0) {
    Pair pair(comm, static_cast<int>(second), clock);
    link.latency = std::max(pair.round_trip(rounds) / 2, 1e-9);
    const double seconds = pair.exchange(ceil_div(rounds, 4), kLargest) - link.latency;
    link.bandwidth = kLargest / std::max(seconds, 1e-9);
    link.add_rate = measured_add_rate();
  } else if (comm.rank() == second) {
    Pair(comm, 0, clock).follow();
  }
  std::array numbers{link.latency, link.bandwidth, link.add_rate};
  comm.broadcast(std::span<double>(numbers), 0);
  return {numbers[0], numbers[1], numbers[2]};
}

std::string describe(const Link& link) {
  return fmt::format("{:.0f} us and {:.3g} GB/s", link.latency * 1e6, link.bandwidth * 1e-9);
}

}  // namespace lockstep
