// Heartbeat: a byte now and then between hosts, beside MPI. It tells a host that cannot be reached
// from one that computes.
//
// MPI cannot tell the two apart: a message over a dead connection waits in the kernel, and a
// message of its own would be answered only when the other side calls MPI. Datagrams would need a
// process that answers, and a suspended host has none. A TCP connection is answered by the kernel
// of the other host, whatever its processes do: bytes that stay without acknowledgement mean that
// packets are lost in one direction or the other. No daemon and no privilege is needed, and TCP to
// any port is what MPI between hosts needs too.
//
// One rank of each host is connected with those 1, 2, 4, 8... hosts before and after it: two hosts
// per doubling, 20 packets per interval on a thousand hosts, and the partners of most all-reduces.
// Each host listens on a port for at most 20 s after the start, until the others have connected. A
// connection counts after both sides have shown the random key of the run, which MPI has passed on.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/comm/comm.h"
#include "collectives/watch/host_card.h"
#include "collectives/watch/reach.h"

namespace lockstep {

class FlightRecorder;

/// Hosts that host `self` of `count` is connected with, ascending.
std::vector<int> heartbeat_peers(int self, int count);

/// Whether LOCKSTEP_HEARTBEAT lets this host have a heartbeat. Throws the usage Error for a value
/// other than "on" and "off".
bool heartbeat_wanted();

/// Belongs to the first rank of a node. One thread at a time; no call waits.
class Heartbeat {
 public:
  /// Collective over `all`; `node`: all.node(). Null on all ranks except the first of each node, if
  /// there is one node only, and if LOCKSTEP_HEARTBEAT=off is set on this host. Throws Error if MPI
  /// fails; a host without sockets has no heartbeat.
  static std::unique_ptr<Heartbeat> make(const Comm& all, const Comm& node);

  /// Without MPI. `cards`: of all hosts; `listener`: the socket behind the port of cards[self],
  /// which passes to this.
  Heartbeat(std::vector<HostCard> cards, int self, int listener);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// Host `from` has no answer of the hosts `to`.
  struct Verdict {
    int from = 0;
    std::vector<int> to;
  };
  /// Sends, listens and judges. Call it every 0.1 s or so. `elapsed`: seconds that were watched
  /// since the last call. A verdict of this host, or what tell() has told here.
  std::optional<Verdict> look(const FlightRecorder& records, double timeout, double elapsed);
  /// Passes a verdict on to all hosts that can be reached: they pass it on too.
  void tell(const Verdict& verdict);

  /// A host has not answered lately: do not blame a rank of this one before look() has judged.
  bool suspects() const { return suspects_; }
  /// This host prints what the user reads: mpirun runs here, or else rank 0.
  bool speaks() const { return speaker_ == self_; }
  int self() const { return self_; }
  std::string name(int host) const { return cards_[host].name.data(); }
  int connected() const;                       ///< peers with a connection that counts
  std::int64_t sent() const { return sent_; }  ///< bytes, one packet each

 private:
  struct Peer;
  struct Guest;
  struct Greeting;

  Greeting greeting(int to) const;
  void set_up(double elapsed);
  void accept_guests();
  bool welcome(Guest& guest, double elapsed);
  void connect(Peer& peer, double elapsed);
  void next_way(Peer& peer);
  void beat(Peer& peer, double elapsed, double interval);
  void listen_to(Peer& peer);
  void pace(const FlightRecorder& records, double elapsed);

  const std::vector<HostCard> cards_;
  const int self_;
  int speaker_ = 0;
  int listener_;
  double set_up_ = 0;  ///< seconds that were watched since the start
  std::vector<Peer> peers_;
  std::vector<Guest> guests_;  ///< connections that have not shown the key yet
  HostPace pace_;
  std::int64_t mark_ns_ = 0;  ///< when a rank of this host moved last
  std::int64_t sent_ = 0;
  bool suspects_ = false;
  std::optional<Verdict> told_;
};

}  // namespace lockstep
