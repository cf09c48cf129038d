// Recognises this host by its names and addresses.
#pragma once

#include <string>

namespace lockstep {

/// Whether `host`, a name or an address, is this host. An empty name is. May ask a name server. One
/// thread.
bool is_this_host(const std::string& host);

}  // namespace lockstep
