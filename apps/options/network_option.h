// --model FILE.toml: a network that the user wrote.
#pragma once

#include "apps/run/options.h"

namespace lockstep {

/// Sets name and text of the network from the file --model. If the file is gone, the text comes
/// from the run that --run, --checkpoint-dir or --resume continues, with a note. Throws the usage
/// Error if there is none.
void read_network(Options& options);

}  // namespace lockstep
