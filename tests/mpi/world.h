// What every test under mpirun shares: the one World of the program (tests/mpi/main.cc).
#pragma once

#include <functional>
#include <string>

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

}  // namespace lockstep
