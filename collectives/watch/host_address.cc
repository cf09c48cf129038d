#include "collectives/watch/host_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/random.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "collectives/watch/launch.h"
#include "src/base/machine.h"
#include "src/base/text.h"

namespace lockstep {
namespace {

/// Whether Open MPI may not use this interface, by the variables that name interfaces.
bool excluded(const std::string& interface) {
  const auto has = [&](const char* list) {
    return std::ranges::count(split(list, ','), interface) > 0;
  };
  const char* const include = std::getenv("OMPI_MCA_btl_tcp_if_include");
  const char* const exclude = std::getenv("OMPI_MCA_btl_tcp_if_exclude");
  if (exclude != nullptr && has(exclude)) return true;
  // A list of networks (10.0.0.0/8) names no interfaces, so that it excludes none here.
  const bool networks = include == nullptr || std::strchr(include, '/') != nullptr;
  return !networks && !has(include);
}

std::uint32_t ip_of(const sockaddr* address) {
  return reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr;
}

}  // namespace

std::vector<Interface> own_interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  std::vector<Interface> interfaces;
  for (; list != nullptr; list = list->ifa_next) {
    if (list->ifa_addr == nullptr || list->ifa_addr->sa_family != AF_INET) continue;
    const std::uint32_t ip = ip_of(list->ifa_addr);
    const bool loopback = ntohl(ip) >> 24 == 127;
    if (!loopback && !excluded(list->ifa_name))
      interfaces.push_back({list->ifa_name, {ip, ip_of(list->ifa_netmask)}});
  }
  return interfaces;
}

HostAddress own_address() {
  HostAddress host;
  const std::string name = host_name();
  std::copy_n(name.data(), std::min(name.size(), host.name.size() - 1), host.name.data());
  // Without a key there is no heartbeat: the list of addresses stays empty, and listen_for() opens
  // no port.
  if (::getrandom(host.key.data(), sizeof host.key, 0) != sizeof host.key) return host;
  host.has_launcher = find_launcher().main;
  auto place = host.addresses.begin();
  for (const Interface& interface : own_interfaces())
    if (place != host.addresses.end()) *place++ = interface.address;
  return host;
}

std::vector<std::uint32_t> ways_to(const HostAddress& own, const HostAddress& other) {
  std::vector<std::uint32_t> near, far;
  for (const HostAddress::Address& there : other.addresses) {
    if (there.ip == 0) continue;
    bool common = false, mine = false;
    for (const HostAddress::Address& here : own.addresses) {
      // Both hosts have such an address, for example that of a bridge of containers. It leads to
      // this host itself.
      mine |= here.ip == there.ip;
      common |= here.ip != 0 && ((here.ip ^ there.ip) & here.mask) == 0;
    }
    if (!mine) (common ? near : far).push_back(there.ip);
  }
  near.insert(near.end(), far.begin(), far.end());
  return near;
}

}  // namespace lockstep
