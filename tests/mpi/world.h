// What every test under mpirun shares: the one World of the program (tests/mpi/main.cc).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "collectives/comm/communicator.h"
#include "collectives/world.h"
#include "tests/support/expect_error.h"

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

/// Expects that `body` throws an AgreedError on all ranks that contains each of `words`.
inline void expect_agreed_error(const std::vector<std::string_view>& words,
                                const std::function<void()>& body,
                                std::source_location where = std::source_location::current()) {
  const testing::ScopedTrace caller(where.file_name(), static_cast<int>(where.line()), "");
  EXPECT_TRUE(mentions(agreed_error_of(body), words));
}

/// The ranks of the same group, as if each group were a host.
inline Comm group_of(const Comm& comm, int group) {
  MPI_Comm node = MPI_COMM_NULL;
  check(MPI_Comm_split(raw(comm), group, comm.rank(), &node));
  return Comm(std::make_shared<const Communicator>(node, /*owned=*/true));
}

/// A communicator of only this rank.
inline Comm alone_of(const Comm& comm) { return group_of(comm, comm.rank()); }

}  // namespace lockstep
