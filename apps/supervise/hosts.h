// Hosts of a supervised run: their slots, which of them are out, and the ranks that they get.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct Host {
  std::string name;  ///< as mpirun gets it; empty: this host, without a name
  int slots = 1;     ///< the most ranks
};

/// Reads a hostfile of Open MPI: one "NAME slots=N" in each line, # begins a comment. Without
/// slots= a host has one slot. A name that comes again adds its slots. `file` may be a pipe. Throws
/// the usage Error with file and line, also for a name that mpirun or an agent cannot use: it would
/// fail without a reason, or take a name that begins with "-" as an option.
std::vector<Host> read_hostfile(const std::string& file);
/// Reads "node1:4,node2,[2001:db8::1]:4,2001:db8::2" of --host. Throws the same.
std::vector<Host> parse_hosts(const std::string& list);

/// The ranks of one host.
struct HostRange {
  std::string host;
  int first = 0, count = 0;
};

/// "rank 2", "ranks 2, 3" or "ranks 4 to 7".
std::string ranks_text(const HostRange& range);

/// Which hosts are in use. A lost host is out until it answers and its cool-down is over. A host
/// that is lost again soon has twice the cool-down. Times are seconds of any clock.
class HostStates {
 public:
  static constexpr double kFirstCoolDown = 5, kLongestCoolDown = 600;
  /// A loss within this many cool-downs after the former one doubles the cool-down.
  static constexpr double kSoon = 10;

  explicit HostStates(std::vector<Host> hosts);

  void lost(std::string_view host, double now);
  /// `host` answers. Returns whether it may join: it is out and its cool-down is over.
  bool may_join(std::string_view host, double now) const;
  void join(std::string_view host);

  std::vector<std::string> out() const;  ///< names, in the order of the hosts
  /// At most `most` ranks, filled host by host in their order.
  std::vector<HostRange> share(int most) const;

 private:
  struct State {
    Host host;
    bool is_out = false;
    double lost_at = 0, cool_down = 0;  ///< cool_down 0: it was never lost
  };
  std::size_t index_of(std::string_view host) const;

  std::vector<State> states_;
};

/// The number of ranks of `shares`.
int rank_count(const std::vector<HostRange>& shares);

}  // namespace lockstep
