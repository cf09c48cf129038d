// HostAddress: the name and the addresses of a host, which MPI passes to the other hosts at the
// start.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// One host of the run. Sent through MPI as bytes.
struct HostAddress {
  struct Address {
    std::uint32_t ip = 0;  ///< IPv4, in network order; 0: end of the list
    std::uint32_t mask = 0;
  };
  static constexpr int kAddresses = 6;

  std::array<char, 64> name = {};             ///< ends with 0
  std::array<std::uint64_t, 2> key = {};      ///< random; the first host's is the key of the run
  std::array<Address, kAddresses> addresses;  ///< of the interfaces that MPI may use
  std::uint16_t port = 0;                     ///< 0: no heartbeat
  bool has_launcher = false;                  ///< mpirun runs here, and not only its daemon
};

/// A network interface of this host with an IPv4 address.
struct Interface {
  std::string name;
  HostAddress::Address address;
};

/// Those that MPI may use, without the loopback. Never throws.
std::vector<Interface> own_interfaces();

/// The addresses of this host, without a port. Never throws.
HostAddress own_address();

/// The addresses of `other` in the order in which `own` should try them: those in a common network
/// first. Leaves out addresses that `own` has too.
std::vector<std::uint32_t> ways_to(const HostAddress& own, const HostAddress& other);

}  // namespace lockstep
