#include "apps/supervise/this_host.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <set>

#include "src/base/machine.h"

namespace lockstep {
namespace {

std::string numeric(const sockaddr* address, socklen_t length) {
  char text[NI_MAXHOST] = "";
  ::getnameinfo(address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

/// The addresses of this host, as numbers.
std::set<std::string> own_addresses() {
  std::set<std::string> own;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return own;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    const int family = one->ifa_addr->sa_family;
    if (family == AF_INET) own.insert(numeric(one->ifa_addr, sizeof(sockaddr_in)));
    if (family == AF_INET6) own.insert(numeric(one->ifa_addr, sizeof(sockaddr_in6)));
  }
  ::freeifaddrs(all);
  return own;
}

}  // namespace

bool is_this_host(const std::string& host) {
  if (host.empty() || host == "localhost" || host == host_name()) return true;
  static const std::set<std::string> own = own_addresses();
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, nullptr, &found) != 0) return false;
  bool result = false;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const std::string address = numeric(one->ai_addr, one->ai_addrlen);
    // No interface lists 127.0.1.1, which Debian gives to the host's own name.
    result = result || own.count(address) > 0 || address.starts_with("127.");
  }
  ::freeaddrinfo(found);
  return result;
}

}  // namespace lockstep
