#include "collectives/watch/heartbeat.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "collectives/comm/communicator.h"
#include "collectives/comm/flight_recorder.h"
#include "src/base/machine.h"

namespace lockstep {
namespace {

constexpr double kSetUp = 20;    ///< seconds until missing connections are abandoned
constexpr double kPatience = 2;  ///< seconds for one address, or for the greeting of a guest
constexpr int kGuests = 64;      ///< at a time, so that strangers cannot use up descriptors

/// A verdict, or a beat if the hosts are -1.
struct Message {
  std::int32_t from = -1, to = -1;
};
constexpr Message kBeat;

bool would_wait() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

void close_socket(int& socket) {
  if (socket >= 0) ::close(socket);
  socket = -1;
}

void send_at_once(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

int open_socket() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  send_at_once(socket);
  return socket;
}

sockaddr_in address_of(std::uint32_t ip, std::uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ip;
  address.sin_port = port;
  return address;
}

/// A listening socket, or -1. Sets the port of `host`, which the kernel chooses. Binds to the
/// address of the host, or to all if it has several.
int listen_for(HostAddress& host) {
  const bool several = host.addresses[1].ip != 0;
  if (host.addresses[0].ip == 0) return -1;
  int socket = open_socket();
  sockaddr_in address = address_of(several ? INADDR_ANY : host.addresses[0].ip, 0);
  socklen_t size = sizeof address;
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  if (socket < 0 || ::bind(socket, raw, size) != 0 || ::listen(socket, kGuests) != 0 ||
      ::getsockname(socket, raw, &size) != 0)
    close_socket(socket);
  else
    host.port = address.sin_port;
  return socket;
}

constexpr double kTimeouts = 1.5;  ///< PeerReachability::limit() in timeouts
constexpr double kLeast = 3;       ///< seconds; TCP needs 1.4 s after three lost packets in a row
/// Part of the limit after which silence is more than a delay.
constexpr double kPart = 1.0 / 3;
/// After a cut one step may still end with messages that had arrived, and another if only one
/// direction is cut.
constexpr int kSteps = 3;

}  // namespace

double PeerReachability::limit(double timeout) { return std::max(kTimeouts * timeout, kLeast); }

void PeerReachability::answered() {
  heard_ = true;
  probed_ = false;
  silent_ = 0;
  steps_ = 0;
}

bool PeerReachability::judge(double elapsed, const HostPace& own, double timeout) {
  const bool began = own.step > step_;
  step_ = own.step;
  if (!judged()) return false;
  silent_ += elapsed;
  if (began && suspect(timeout)) ++steps_;
  const double allowed = (probed_ ? 2 : 1) * limit(timeout);
  return judged() && silent_ > allowed && own.quiet > kPart * limit(timeout);
}

bool PeerReachability::judged() const { return heard_ && !given_up_ && steps_ < kSteps; }

bool PeerReachability::suspect(double timeout) const {
  return judged() && silent_ > kPart * limit(timeout);
}

/// Both sides of a connection send this first.
struct Heartbeat::Greeting {
  std::array<std::uint64_t, 2> key;
  std::int32_t from, to;
  bool operator==(const Greeting&) const = default;

  /// Whether recv() has returned `got` because a part has not arrived.
  static bool is_partial(ssize_t got) {
    return got < 0 ? would_wait() : got > 0 && got < ssize_t{sizeof(Greeting)};
  }
};

/// Another host. The host with the lower number connects, the other listens.
struct Heartbeat::Peer {
  int host = 0;
  std::vector<std::uint32_t> ways = {};  ///< addresses left to try
  int socket = -1;
  bool connected = false;  ///< and has sent the key
  double tried = 0;        ///< seconds with the present address
  double since_beat = 0;
  double since_heard = 0;  ///< bytes of it arrive while its watchdog runs
  int probe = -1;          ///< socket of a new connection that asks for an answer
  double since_probe = 0;
  std::int64_t sent = 0, acknowledged = 0;  ///< bytes
  std::string heard = {};                   ///< begin of an incomplete message
  PeerReachability reachability = {};
};

/// An accepted connection that has not sent the key.
struct Heartbeat::Guest {
  int socket = -1;
  double waited = 0;
};

std::set<int> heartbeat_peers(int self, int count) {
  std::set<int> peers;
  for (std::int64_t far = 1; far < count; far *= 2) {
    peers.insert(static_cast<int>((self + far) % count));
    peers.insert(static_cast<int>((self - far + count) % count));
  }
  return peers;
}

bool heartbeat_wanted() { return switched_on("LOCKSTEP_HEARTBEAT"); }

std::unique_ptr<Heartbeat> Heartbeat::make(const Comm& all, const Comm& node) {
  if (node.size() == all.size()) return nullptr;
  const std::optional<Comm> leaders = leaders_of(all, node);
  if (!leaders) return nullptr;
  HostAddress host = own_address();
  const int listener = heartbeat_wanted() ? listen_for(host) : -1;
  // Collective, so that a host without a listener takes part too.
  std::vector<HostAddress> hosts = leaders->of_all(host);
  if (listener < 0) return nullptr;
  return std::make_unique<Heartbeat>(std::move(hosts), leaders->rank(), listener);
}

Heartbeat::Heartbeat(std::vector<HostAddress> hosts, int self, int listener)
    : hosts_(std::move(hosts)), self_(self), listener_(listener) {
  for (const int host : heartbeat_peers(self, static_cast<int>(hosts_.size()))) {
    if (hosts_[host].port == 0) continue;
    peers_.push_back({.host = host});
    if (self < host) peers_.back().ways = ways_to(hosts_[self], hosts_[host]);
  }
  const auto launcher = std::ranges::find(hosts_, true, &HostAddress::has_launcher);
  if (launcher != hosts_.end()) printer_ = static_cast<int>(launcher - hosts_.begin());
}

Heartbeat::~Heartbeat() {
  close_socket(listener_);
  for (Peer& peer : peers_) {
    close_socket(peer.socket);
    close_socket(peer.probe);
  }
  for (Guest& guest : guests_) close_socket(guest.socket);
}

int Heartbeat::connected() const {
  return static_cast<int>(std::ranges::count(peers_, true, &Peer::connected));
}

Heartbeat::Greeting Heartbeat::greeting(int from, int to) const {
  return {.key = hosts_.front().key, .from = from, .to = to};
}

std::optional<Heartbeat::Verdict> Heartbeat::poll(const FlightRecorder& flight_recorder,
                                                  double timeout, double elapsed) {
  pace(flight_recorder, elapsed);
  if (listener_ >= 0) set_up(elapsed);
  Verdict verdict{.from = self_, .to = {}};
  bool sure = false;
  suspects_ = false;
  for (Peer& peer : peers_) {
    if (!peer.connected) continue;
    const double interval = std::clamp(timeout / 10, 0.2, 2.0);
    beat(peer, elapsed, interval);
    sure |= peer.reachability.judge(elapsed, pace_, timeout);
    if (peer.reachability.silent() > PeerReachability::limit(timeout) / 2)
      probe(peer, elapsed, interval);
    if (!peer.reachability.suspect(timeout)) continue;
    suspects_ = true;
    verdict.to.push_back(peer.host);  // includes others that were lost at about the same time
  }
  // The verdict of another host comes first, so that the hosts agree on one.
  if (announced_) return std::exchange(announced_, std::nullopt);
  if (!sure) return std::nullopt;
  return verdict;
}

std::string Heartbeat::names(const std::vector<int>& hosts) const {
  std::string text;
  for (const int host : hosts)
    text += (text.empty() ? "" : " and ") + std::string(hosts_[host].name.data());
  return text;
}

std::string Heartbeat::frozen(double timeout) const {
  std::vector<int> hosts;
  for (const Peer& peer : peers_) {
    const bool answers = peer.socket >= 0 && !peer.reachability.suspect(timeout);
    if (answers && peer.since_heard > timeout) hosts.push_back(peer.host);
  }
  return names(hosts);
}

void Heartbeat::announce(const Verdict& verdict) {
  const Message message{verdict.from, verdict.to.front()};
  for (const Peer& peer : peers_)
    if (peer.connected) ::send(peer.socket, &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Heartbeat::pace(const FlightRecorder& flight_recorder, double elapsed) {
  std::int64_t mark = 0;
  for (int i = 0; i < flight_recorder.size(); ++i) {
    const RankRecorder::State state = flight_recorder[i].read();
    mark = std::max(mark, state.mark_ns);
    pace_.step = std::max(pace_.step, state.step);
  }
  pace_.quiet = mark == mark_ns_ ? pace_.quiet + elapsed : 0;
  mark_ns_ = mark;
}

void Heartbeat::set_up(double elapsed) {
  while (guests_.size() < kGuests) {
    const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket < 0) break;
    guests_.push_back({.socket = socket});
  }
  std::erase_if(guests_, [&](Guest& guest) { return welcome(guest, elapsed); });
  bool missing = false;
  for (Peer& peer : peers_) {
    if (peer.connected) continue;
    if (self_ < peer.host) connect(peer, elapsed);
    missing |= !peer.connected && (self_ > peer.host || peer.socket >= 0 || !peer.ways.empty());
  }
  set_up_ += elapsed;
  if (missing && set_up_ < kSetUp) return;
  close_socket(listener_);
  for (Guest& guest : guests_) close_socket(guest.socket);
  guests_.clear();
}

/// True if `guest` has sent the key and is a peer now, or was closed.
bool Heartbeat::welcome(Guest& guest, double elapsed) {
  // Only looks (MSG_PEEK) until all of the greeting has arrived, so that no part has to be kept.
  Greeting theirs;
  const ssize_t got = ::recv(guest.socket, &theirs, sizeof theirs, MSG_PEEK);
  guest.waited += elapsed;
  if (Greeting::is_partial(got) && guest.waited < kPatience) return false;
  if (got == ssize_t{sizeof theirs}) {
    for (Peer& peer : peers_) {
      if (peer.connected || peer.host > self_ || theirs != greeting(peer.host, self_)) continue;
      const Greeting own = greeting(self_, peer.host);
      send_at_once(guest.socket);
      ::recv(guest.socket, &theirs, sizeof theirs, 0);
      peer.connected = ::send(guest.socket, &own, sizeof own, MSG_NOSIGNAL) == ssize_t{sizeof own};
      peer.sent = sizeof own;
      peer.socket = std::exchange(guest.socket, -1);
      return true;
    }
  }
  close_socket(guest.socket);
  return true;
}

void Heartbeat::next_way(Peer& peer) {
  close_socket(peer.socket);
  peer.tried = 0;
  peer.sent = 0;
  if (peer.ways.empty()) return;
  const sockaddr_in address = address_of(peer.ways.front(), hosts_[peer.host].port);
  peer.ways.erase(peer.ways.begin());
  peer.socket = open_socket();
  if (::connect(peer.socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
      errno != EINPROGRESS)
    close_socket(peer.socket);
}

/// Moves a new connection on.
void Heartbeat::connect(Peer& peer, double elapsed) {
  if (peer.socket < 0) return next_way(peer);
  peer.tried += elapsed;
  if (peer.tried > kPatience) return next_way(peer);
  pollfd state = {.fd = peer.socket, .events = POLLOUT, .revents = 0};
  if (::poll(&state, 1, 0) <= 0) return;
  if (peer.sent == 0) {
    const Greeting own = greeting(self_, peer.host);
    const ssize_t length = ::send(peer.socket, &own, sizeof own, MSG_NOSIGNAL);
    if (length != ssize_t{sizeof own}) return next_way(peer);
    peer.sent = length;
  }
  Greeting theirs;
  const ssize_t got = ::recv(peer.socket, &theirs, sizeof theirs, MSG_PEEK);
  if (Greeting::is_partial(got)) return;
  if (got <= 0 || theirs != greeting(peer.host, self_)) return next_way(peer);
  ::recv(peer.socket, &theirs, sizeof theirs, 0);
  peer.connected = true;
}

void Heartbeat::beat(Peer& peer, double elapsed, double interval) {
  if (peer.socket < 0) return;
  peer.since_heard += elapsed;
  listen_to(peer);
  int waiting = 0;  // bytes without acknowledgement
  if (peer.socket < 0 || ::ioctl(peer.socket, SIOCOUTQ, &waiting) != 0) return;
  if (peer.sent - waiting > peer.acknowledged) {
    peer.acknowledged = peer.sent - waiting;
    peer.reachability.answered();
  }
  peer.since_beat += elapsed;
  // One beat without an answer is enough, because TCP repeats it. More would only fill the buffer.
  if (waiting > 0 || peer.since_beat < interval) return;
  if (::send(peer.socket, &kBeat, sizeof kBeat, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return;
  peer.since_beat = 0;
  peer.sent += sizeof kBeat;
  ++sent_;
}

/// Begins new connections. Their first packets are sent at once, and a refusal is an answer too.
void Heartbeat::probe(Peer& peer, double elapsed, double interval) {
  pollfd state = {.fd = peer.probe, .events = POLLOUT, .revents = 0};
  if (peer.probe >= 0 && ::poll(&state, 1, 0) > 0) {
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(peer.probe, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0 || error == ECONNREFUSED) peer.reachability.probed();
    close_socket(peer.probe);
  }
  if ((peer.since_probe += elapsed) < interval) return;
  peer.since_probe = 0;
  close_socket(peer.probe);
  sockaddr_in address = {};
  socklen_t size = sizeof address;
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  if (::getpeername(peer.socket, raw, &size) != 0) return;
  peer.probe = open_socket();
  if (::connect(peer.probe, raw, size) != 0 && errno != EINPROGRESS) close_socket(peer.probe);
}

/// Reads from a peer. A peer that has closed the connection was reachable. A connection that an
/// administrator of this host has closed (ECONNABORTED) proves nothing.
void Heartbeat::listen_to(Peer& peer) {
  std::array<char, 256> bytes;
  const ssize_t got = ::recv(peer.socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got == 0 || (got < 0 && (errno == ECONNRESET || errno == ECONNABORTED || errno == EPIPE))) {
    peer.reachability.give_up();
    return close_socket(peer.socket);
  }
  if (got < 0 && would_wait()) return;
  if (got < 0) return close_socket(peer.socket);  // a fault of the network: still silent
  peer.since_heard = 0;
  peer.heard.append(bytes.data(), static_cast<std::size_t>(got));
  const auto known = [&](std::int32_t host) { return host >= 0 && host < std::ssize(hosts_); };
  for (Message message; peer.heard.size() >= sizeof message; peer.heard.erase(0, sizeof message)) {
    std::memcpy(&message, peer.heard.data(), sizeof message);
    if (known(message.from) && known(message.to))
      announced_ = Verdict{.from = message.from, .to = {message.to}};
  }
}

}  // namespace lockstep
