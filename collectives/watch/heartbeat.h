// Heartbeat: bytes at intervals between hosts, without MPI. They distinguish a host that cannot be
// reached from one that computes.
//
// MPI cannot: a message over a dead connection waits in the kernel, and the other side answers a
// message only when it calls MPI. The kernel of the other host acknowledges TCP, whatever its
// processes do. Bytes without acknowledgement mean that packets are lost in one direction or the
// other. No daemon and no privilege is needed. MPI between hosts needs TCP to any port too.
//
// One rank of each host is connected with those 1, 2, 4, 8... hosts before and after it. These are
// 20 packets per interval on a thousand hosts, to the partners of most all-reduces. Each host
// listens on a port until the others have connected, at most 20 s. A connection counts after both
// sides have sent the random key of the run, which MPI has distributed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "collectives/comm/comm.h"
#include "collectives/watch/host_address.h"

namespace lockstep {

class FlightRecorder;

/// Progress of this host.
struct HostPace {
  std::int64_t step = -1;  ///< the highest step that a rank of this host has begun
  double quiet = 0;        ///< watched seconds since a rank of this host moved
};

/// One other host. It is unreachable if its answers to the heartbeat and all ranks of this host
/// stop at the same time. The kernel of the other host answers, so that it answers while its ranks
/// compute, wait for a disk or are stopped.
///  - A host that has never answered is not judged, because a firewall may drop the heartbeat.
///  - If answers stop while steps go on, only the heartbeat has failed, for example because a
///    firewall closed the connection. The host is not judged until it answers again.
///  - TCP repeats a lost packet only after up to the duration of the outage. So an answer to a
///    probe, a new connection, doubles the time that the old one has.
/// Uses no clock and no socket. One thread at a time.
class PeerReachability {
 public:
  /// Seconds without an answer after which the other host is unreachable. Shorter outages are
  /// allowed, and the line is printed within 2 `timeout`.
  static double limit(double timeout);

  void answered();
  void probed() { probed_ = true; }  ///< a probe was answered
  /// Never judges this host again: it closed the connection, so that it was reachable.
  void give_up() { given_up_ = true; }

  /// Call it regularly. `elapsed`: watched seconds since the last call. Returns whether the host is
  /// unreachable.
  bool judge(double elapsed, const HostPace& own, double timeout);

  /// The last answer is so old that a hang of this host may be a fault of the network.
  bool suspect(double timeout) const;
  double silent() const { return silent_; }  ///< seconds since the last answer

 private:
  bool judged() const;

  bool heard_ = false, given_up_ = false, probed_ = false;
  double silent_ = 0;
  std::int64_t step_ = -1;  ///< own step at the last call
  int steps_ = 0;           ///< begun by this host without an answer
};

/// The hosts with which host `self` of `count` is connected.
std::set<int> heartbeat_peers(int self, int count);

/// Whether LOCKSTEP_HEARTBEAT is "on" or not set. Throws the usage Error unless it is "on" or
/// "off".
bool heartbeat_wanted();

/// Owned by the first rank of a node. One thread at a time. No call waits.
class Heartbeat {
 public:
  /// Collective over `all`; `node`: all.node(). Null on all ranks except the first of each node,
  /// with a single node, with LOCKSTEP_HEARTBEAT=off, and without sockets. MPI failures throw
  /// Error.
  static std::unique_ptr<Heartbeat> make(const Comm& all, const Comm& node);

  /// Without MPI. `hosts`: all of the run. `listener`: the socket of the port in hosts[self], owned
  /// by this object.
  Heartbeat(std::vector<HostAddress> hosts, int self, int listener);
  ~Heartbeat();
  Heartbeat& operator=(Heartbeat&&) = delete;  ///< neither copied nor moved

  /// Host `from` gets no answer from the hosts `to`.
  struct Verdict {
    int from = 0;
    std::vector<int> to;
  };
  /// Sends, receives and judges. Call it about every 0.1 s. `elapsed`: watched seconds since the
  /// last call. Returns a verdict of this host, or one that announce() of another host has sent.
  std::optional<Verdict> poll(const FlightRecorder& flight_recorder, double timeout,
                              double elapsed);
  /// Sends a verdict to all connected hosts, which send it on.
  void announce(const Verdict& verdict);

  /// The hosts whose kernels answer, but whose processes have sent nothing for `timeout` seconds:
  /// "a and b", which are stopped or overloaded. Empty: none.
  std::string frozen(double timeout) const;
  /// A host has not answered recently, so that a hang may be a fault of the network.
  bool suspects() const { return suspects_; }
  /// This host prints for the user: that of mpirun, else that of rank 0.
  bool prints() const { return printer_ == self_; }
  int self() const { return self_; }
  std::string names(const std::vector<int>& hosts) const;  ///< "a and b"
  int connected() const;                                   ///< peers that have sent the key
  std::int64_t sent() const { return sent_; }              ///< beats, each in its own packet

 private:
  struct Peer;
  struct Guest;
  struct Greeting;

  Greeting greeting(int from, int to) const;
  void set_up(double elapsed);
  bool welcome(Guest& guest, double elapsed);
  void connect(Peer& peer, double elapsed);
  void next_way(Peer& peer);
  void beat(Peer& peer, double elapsed, double interval);
  void probe(Peer& peer, double elapsed, double interval);
  void listen_to(Peer& peer);
  void pace(const FlightRecorder& flight_recorder, double elapsed);

  const std::vector<HostAddress> hosts_;
  const int self_;
  int printer_ = 0;
  int listener_;
  double set_up_ = 0;  ///< watched seconds since the start
  std::vector<Peer> peers_;
  std::vector<Guest> guests_;  ///< accepted connections that have not sent the key
  HostPace pace_;
  std::int64_t mark_ns_ = 0;  ///< last mark of a rank of this host
  std::int64_t sent_ = 0;
  bool suspects_ = false;
  std::optional<Verdict> announced_;
};

}  // namespace lockstep
