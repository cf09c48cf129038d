#include "apps/supervise/hosts.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <regex>
#include <sstream>
#include <utility>

#include "src/base/check.h"
#include "src/base/option_rows.h"
#include "src/base/text.h"

namespace lockstep {
namespace {

/// `place`: begin of the error.
int parse_slots(const std::string& place, const std::string& text) {
  return parse_number<int>(place + ": slots", one_line(text), Bounds::at_least(1, 100000));
}

/// `text` without brackets and without a dot at its end. Hostfiles of Open MPI allow these names
/// and addresses only. They read a number as a number, and a name server as an address.
std::string parse_name(const std::string& place, const std::string& text) {
  static const std::regex name(R"((?!\d+$)(\w[\w.-]*@)?\w[\w.-]*)");
  std::string host = text;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.ends_with('.')) host.pop_back();
  in6_addr ignored;
  const bool six =
      ::inet_pton(AF_INET6, host.c_str(), &ignored) == 1 && host.find('.') == host.npos;
  if (!six && !std::regex_match(host, name)) {
    fail_usage(
        "{}: mpirun takes no host \"{}\". Pass a name with letters, or an address without %; files "
        "have NAME slots=N.",
        place, one_line(text));
  }
  return host;
}

void add(std::vector<Host>& hosts, const std::string& name, int slots) {
  const auto found = std::ranges::find(hosts, name, &Host::name);
  if (found == hosts.end()) {
    hosts.push_back({name, slots});
  } else {
    found->slots += slots;
  }
}

}  // namespace

std::vector<Host> read_hostfile(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text;
  std::getline(in, text, '\0');
  if (!in.is_open() || in.bad())
    fail_usage("--hostfile {}: {}. Pass a file with hosts.", one_line(file), std::strerror(errno));
  std::vector<Host> hosts;
  int number = 0;
  for (const std::string& line : lines_of(with_unix_ends(text))) {
    const std::string place = fmt::format("--hostfile {}:{}", file, ++number);
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name, word;
    int slots = 1;
    if (!(words >> name)) continue;
    while (words >> word) {
      if (!word.starts_with("slots="))
        fail_usage("{}: \"{}\" is not understood. Write: NAME slots=N", place, one_line(word));
      slots = parse_slots(place, word.substr(6));
    }
    add(hosts, parse_name(place, name), slots);
  }
  if (hosts.empty()) fail_usage("--hostfile {} names no host. Write: NAME slots=N", file);
  return hosts;
}

std::vector<Host> parse_hosts(const std::string& list) {
  std::vector<Host> hosts;
  const std::string place = "--host " + one_line(list);
  for (const std::string& entry : split(list, ',')) {
    // A colon separates the slots, but IPv6 addresses contain colons too. Slots of such an address
    // need brackets around it.
    std::size_t colon = entry.find(':', entry.starts_with('[') ? entry.find(']') : 0);
    if (colon != entry.rfind(':')) colon = entry.npos;  // an IPv6 address without slots
    const std::string name = parse_name(place, entry.substr(0, colon));
    add(hosts, name, colon == entry.npos ? 1 : parse_slots(place, entry.substr(colon + 1)));
  }
  return hosts;
}

std::string ranks_text(const HostRange& range) {
  const int last = range.first + range.count - 1;
  if (range.count == 1) return fmt::format("rank {}", last);
  return fmt::format("ranks {}{}{}", range.first, range.count == 2 ? ", " : " to ", last);
}

HostStates::HostStates(std::vector<Host> hosts) {
  for (Host& host : hosts) states_.push_back({std::move(host)});
}

void HostStates::lost(std::string_view host, double now) {
  State& state = states_[index_of(host)];
  // A host that fails again and again would end all ranks at each return, so it waits longer each
  // time.
  const bool soon = state.cool_down > 0 && now - state.lost_at < kSoon * state.cool_down;
  state.cool_down = soon ? std::min(2 * state.cool_down, kLongestCoolDown) : kFirstCoolDown;
  state.lost_at = now;
  state.is_out = true;
}

bool HostStates::may_join(std::string_view host, double now) const {
  const State& state = states_[index_of(host)];
  return state.is_out && now - state.lost_at >= state.cool_down;
}

void HostStates::join(std::string_view host) { states_[index_of(host)].is_out = false; }

std::vector<std::string> HostStates::out() const {
  std::vector<std::string> names;
  for (const State& state : states_)
    if (state.is_out) names.push_back(state.host.name);
  return names;
}

std::vector<HostRange> HostStates::share(int most) const {
  std::vector<HostRange> shares;
  int first = 0;
  for (const State& state : states_) {
    const int count = std::min(state.host.slots, most - first);
    if (state.is_out || count <= 0) continue;
    shares.push_back({state.host.name, first, count});
    first += count;
  }
  return shares;
}

std::size_t HostStates::index_of(std::string_view host) const {
  std::size_t index = 0;
  while (index < states_.size() && states_[index].host.name != host) ++index;
  expect(index < states_.size(), "a host of the run has a state");
  return index;
}

int rank_count(const std::vector<HostRange>& shares) {
  return shares.empty() ? 0 : shares.back().first + shares.back().count;
}

}  // namespace lockstep
