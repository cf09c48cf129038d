// What every test under mpirun shares: the one World of the program (tests/mpi/main.cc).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "collectives/comm/communicator.h"
#include "collectives/world.h"

namespace lockstep {

World& world();

/// The text of the AgreedError that `body` throws on all ranks; empty if it throws none.
inline std::string agreed_error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const AgreedError& error) {
    return error.what();
  }
  return "";
}

/// A communicator of only this rank.
inline Comm alone_of(const Comm& comm) {
  MPI_Comm own = MPI_COMM_NULL;
  check(MPI_Comm_split(raw(comm), comm.rank(), 0, &own));
  return Comm(std::make_shared<const Communicator>(own, /*owned=*/true));
}

}  // namespace lockstep
