// What every test under mpirun shares: the one World of the program (tests/mpi/main.cc).
#pragma once

#include "collectives/world.h"

namespace lockstep {

World& world();

}  // namespace lockstep
