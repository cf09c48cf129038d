// What messages between hosts cost, from an earlier run where that is known.
//
// A file for each set of circumstances: link-XXXXXXXX.txt, with the checksum of its first line.
//
//   lockstep link of a cpu 0-1; b cpu 0-1
//   latency = 5.2e-05
//   bandwidth = 1.17e+08
//   add_rate = 1.2e+10
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "collectives/comm.h"
#include "collectives/schedule.h"

namespace lockstep {

struct KnownLink {
  Link link;
  std::string origin;  ///< "measured before", or "measured now" with what was wrong with a file
};

/// That of measure_link() for the same hosts, ranks, cores and transports, as an earlier run of the
/// last day left it in `folder`; else measured now, and left there for the next. What stands in the
/// file is believed only as far as it could be true. An empty folder holds nothing, and one that
/// cannot be written is as good. The same on all ranks. Collective.
KnownLink known_link(const Comm& comm, const Comm& node, const std::filesystem::path& folder);

/// The text of such a file, and back. Throws Error where it is none, or of other `circumstances`
/// (one line).
std::string text_of(const Link& link, const std::string& circumstances);
Link link_from(std::string_view text, const std::string& circumstances);

}  // namespace lockstep
