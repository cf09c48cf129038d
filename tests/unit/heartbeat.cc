// Heartbeats between hosts, which are addresses of this one: 127.0.0.1, 127.0.0.2 and so on. The
// test passes the time. Packets need a moment of real time.
#include "collectives/watch/heartbeat.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "collectives/comm/flight_recorder.h"
#include "collectives/watch/launch.h"
#include "src/base/process.h"

namespace lockstep {
namespace {

sockaddr_in loopback(int number, std::uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + static_cast<std::uint32_t>(number));
  address.sin_port = port;
  return address;
}

int socket_on(sockaddr_in& address) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  socklen_t size = sizeof address;
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(socket, raw, size), 0);
  EXPECT_EQ(::listen(socket, 8), 0);
  EXPECT_EQ(::getsockname(socket, raw, &size), 0);
  return socket;
}

class Hosts {
 public:
  /// `silent`: number of a host without a heartbeat.
  explicit Hosts(int count, int silent = -1) : addresses_(count) {
    std::vector<int> listeners;
    for (int host = 0; host < count; ++host) {
      HostAddress& own = addresses_[host];
      const std::string name = "host-" + std::to_string(host);
      std::copy(name.begin(), name.end(), own.name.begin());
      own.key = {7, static_cast<std::uint64_t>(host)};
      sockaddr_in address = loopback(host, 0);
      listeners.push_back(host == silent ? -1 : socket_on(address));
      if (host == silent) continue;
      own.addresses[0] = {.ip = address.sin_addr.s_addr, .mask = htonl(0xff000000)};
      own.port = address.sin_port;
    }
    for (int host = 0; host < count; ++host) {
      hosts_.push_back(host == silent
                           ? nullptr
                           : std::make_unique<Heartbeat>(addresses_, host, listeners[host]));
    }
  }

  Heartbeat& operator[](int host) { return *hosts_[host]; }
  void leave(int host) { hosts_[host].reset(); }
  const HostAddress& address(int host) const { return addresses_[host]; }

  std::optional<Heartbeat::Verdict> poll(int host, double elapsed) {
    return hosts_[host]->poll(records_, 60, elapsed);
  }
  /// All look until each has `each` connections. Returns whether they succeed.
  bool connect(int each) {
    for (int i = 0; i < 1000; ++i) {
      bool all = true;
      for (std::size_t host = 0; host < hosts_.size(); ++host) {
        if (!hosts_[host]) continue;
        EXPECT_FALSE(poll(static_cast<int>(host), 0.001));
        all &= hosts_[host]->connected() == each;
      }
      if (all) return true;
      pause();
    }
    return false;
  }
  static void pause(int milliseconds = 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  }

 private:
  std::vector<HostAddress> addresses_;
  struct alignas(64) Line {
    char bytes[64] = {};
  };
  std::vector<Line> memory_{FlightRecorder::bytes(1) / sizeof(Line)};
  FlightRecorder records_{memory_.data(), 0, 1, 0};
  std::deque<std::unique_ptr<Heartbeat>> hosts_;
};

TEST(Heartbeat, EveryHostHasFewPeersInBothDirections) {
  EXPECT_EQ(heartbeat_peers(0, 2), (std::set{1}));
  EXPECT_EQ(heartbeat_peers(1, 3), (std::set{0, 2}));
  for (const int count : {1, 2, 5, 64, 1000}) {
    for (int host = 0; host < count; ++host) {
      const std::set<int> peers = heartbeat_peers(host, count);
      EXPECT_LE(peers.size(), 20u);
      for (const int peer : peers) {
        EXPECT_NE(peer, host);
        EXPECT_TRUE(heartbeat_peers(peer, count).contains(host));
      }
    }
  }
}

TEST(Heartbeat, HostsConnectThenStopListening) {
  Hosts hosts(4);
  ASSERT_TRUE(hosts.connect(3));
  for (int host = 0; host < 4; ++host) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = loopback(host, hosts.address(host).port);
    EXPECT_NE(::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ::close(socket);
  }
}

TEST(Heartbeat, StopsListeningAfterAWhileIfAHostIsMissing) {
  Hosts hosts(3);
  for (int i = 0; i < 300; ++i) hosts.poll(2, 0.1);
  EXPECT_EQ(hosts[2].connected(), 0);
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(2, hosts.address(2).port);
  EXPECT_NE(::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::close(socket);
}

TEST(Heartbeat, ClosesAConnectionWithoutTheKey) {
  Hosts hosts(2);
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(1, hosts.address(1).port);
  ASSERT_EQ(::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const std::string greeting(64, 'x');
  EXPECT_EQ(::send(socket, greeting.data(), greeting.size(), MSG_NOSIGNAL), 64);
  EXPECT_TRUE(hosts.connect(1));
  char byte;
  EXPECT_LE(::recv(socket, &byte, 1, 0), 0) << "closed without a byte";
  ::close(socket);
}

TEST(Heartbeat, IgnoresAHostWithoutAHeartbeat) {
  Hosts hosts(3, 1);
  EXPECT_TRUE(hosts.connect(1));
  for (int i = 0; i < 50; ++i) {
    EXPECT_FALSE(hosts.poll(0, 2));
    Hosts::pause(50);
  }
}

TEST(Heartbeat, AHostWhoseProcessesAreStoppedIsNotBlamed) {
  Hosts hosts(2);
  ASSERT_TRUE(hosts.connect(1));
  const std::int64_t before = hosts[0].sent();
  for (int i = 0; i < 100; ++i) {  // host 1 never looks: its kernel answers within 0.2 s
    EXPECT_FALSE(hosts.poll(0, 1));
    EXPECT_FALSE(hosts[0].suspects());
    Hosts::pause(50);
  }
  EXPECT_LE(hosts[0].sent() - before, 50) << "a beat every two seconds";
  EXPECT_GE(hosts[0].sent() - before, 10);
}

TEST(Heartbeat, NamesAHostWhoseProcessesSendNothing) {
  Hosts hosts(3);
  ASSERT_TRUE(hosts.connect(2));
  for (int i = 0; i < 40; ++i) {  // host 2 never looks
    EXPECT_EQ(hosts[0].frozen(60), "") << i;
    hosts.poll(0, 1);
    hosts.poll(1, 1);
    Hosts::pause(5);
  }
  EXPECT_EQ(hosts[0].frozen(30), "host-2");
  EXPECT_EQ(hosts[1].frozen(30), "host-2");
  hosts.poll(2, 10);
  for (int i = 0; i < 1000 && hosts[0].frozen(30) != ""; ++i) {
    hosts.poll(0, 0.001);
    Hosts::pause();
  }
  EXPECT_EQ(hosts[0].frozen(30), "") << "it goes on";
}

TEST(Heartbeat, AHostThatLeavesIsNotBlamed) {
  Hosts hosts(2);
  ASSERT_TRUE(hosts.connect(1));
  hosts.leave(1);
  for (int i = 0; i < 3000; ++i) EXPECT_FALSE(hosts.poll(0, 0.1));
}

TEST(Heartbeat, SendsAVerdictToOthers) {
  Hosts hosts(4);
  ASSERT_TRUE(hosts.connect(3));
  hosts[1].announce({.from = 1, .to = {2, 3}});
  std::optional<Heartbeat::Verdict> announced;
  for (int i = 0; i < 1000 && !(announced = hosts.poll(0, 0.001)); ++i) Hosts::pause();
  ASSERT_TRUE(announced);
  EXPECT_EQ(announced->from, 1);
  EXPECT_EQ(announced->to, (std::vector{2}));
  EXPECT_EQ(hosts[0].names({2, 3}), "host-2 and host-3");
}

TEST(Heartbeat, TriesACommonNetworkFirstAndNeverItsOwnAddress) {
  HostAddress own, other;
  const auto ip = [](const char* text) { return ::inet_addr(text); };
  own.addresses[0] = {ip("10.1.0.1"), ip("255.255.0.0")};
  own.addresses[1] = {ip("172.17.0.1"), ip("255.255.0.0")};  // a bridge that every host has
  other.addresses[0] = {ip("172.17.0.1"), ip("255.255.0.0")};
  other.addresses[1] = {ip("192.168.0.2"), ip("255.255.255.0")};
  other.addresses[2] = {ip("10.1.0.2"), ip("255.255.0.0")};
  EXPECT_EQ(ways_to(own, other), (std::vector{ip("10.1.0.2"), ip("192.168.0.2")}));
}

TEST(Launcher, IsEndedEvenIfItIgnoresTheFirstSignals) {
  const pid_t child = fork();
  if (child == 0) {
    ::signal(SIGTERM, SIG_IGN);
    ::alarm(60);
    for (;;) ::pause();
  }
  Process process(child, 0);
  end_later({.pid = child, .main = true}, 0.2);
  EXPECT_EQ(process.condition(), Condition::runs);
  for (int i = 0; i < 5000 && process.condition() != Condition::gone; ++i) Hosts::pause();
  EXPECT_EQ(process.condition(), Condition::gone);
}

}  // namespace
}  // namespace lockstep
