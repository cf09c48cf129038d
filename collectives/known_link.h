// What messages between hosts cost, from an earlier run where that is known.
//
// A file for each set of circumstances: link-XXXXXXXX.txt, with the checksum of its first line.
//
//   lockstep link, by pieces, of a cpu 0-1; b cpu 0-1
//   latency = 5.2e-05
//   bandwidth = 1.17e+08
//   add_rate = 1.2e+10
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "collectives/comm.h"
#include "collectives/measured_link.h"
#include "collectives/schedule.h"

namespace lockstep {

struct KnownLink {
  Link link;
  std::string origin;  ///< "measured before", or "measured now" with why an earlier one is not it
};

/// Whether a glance has `seen` the link as it is `known`: latency and bandwidth within a factor of
/// two.
bool still_holds(const Link& known, const Link& seen);

/// measure_link(), with as many rounds as said.
using MeasureLink = std::function<Link(const Comm& comm, const Comm& node, int rounds)>;

/// That of measure_link() for the same hosts, ranks, cores and transports, as an earlier run of the
/// last day left it in `folder`, where a glance finds that it still holds; else measured now, and
/// left there for the next. So a link that was measured while others kept the machines or the
/// network busy misleads until the next run at most. What stands in the file is believed only as
/// far as it could be true. An empty folder holds nothing, and one that cannot be written is as
/// good. The same on all ranks. Collective.
KnownLink known_link(
    const Comm& comm, const Comm& node, const std::filesystem::path& folder,
    const MeasureLink& measure = [](const Comm& comm, const Comm& node, int rounds) {
      return measure_link(comm, node, rounds);
    });

/// The text of such a file, and back. Throws Error where it is none, or of other `circumstances`
/// (one line).
std::string text_of(const Link& link, const std::string& circumstances);
Link link_from(std::string_view text, const std::string& circumstances);

}  // namespace lockstep
