// MPI's communicator behind a Comm, and MPI's errors. Only collectives/ and its tests include it.
#pragma once

#include <mpi.h>

#include <optional>
#include <source_location>

#include "collectives/comm/comm.h"

namespace lockstep {

class RankRecorder;

/// Throws Error with MPI's text and the place unless `code` is MPI_SUCCESS.
void check(int code, std::source_location at = std::source_location::current());

/// Its calls return errors instead of aborting. The destructor frees an owned communicator, which
/// is collective, except while an exception unwinds.
struct Communicator {
  Communicator(MPI_Comm handle, bool owned);
  ~Communicator();
  Communicator& operator=(Communicator&&) = delete;  ///< neither copied nor moved

  MPI_Comm handle;
  bool owned;
};

/// While it lives, this rank is inside a call that returns when other ranks have made it too
/// (RankRecorder::collective). Comm's methods contain one.
class Waiting {
 public:
  Waiting();
  ~Waiting();
  /// Sets the recorder that is written; null: none.
  static void report_to(RankRecorder* recorder);
  Waiting& operator=(Waiting&&) = delete;  ///< neither copied nor moved
};

/// A communicator of the lowest ranks of all nodes, on these ranks; none on the others. `node`:
/// all.node(). Collective over `all`.
std::optional<Comm> leaders_of(const Comm& all, const Comm& node);

inline MPI_Comm raw(const Comm& comm) { return comm.communicator().handle; }

}  // namespace lockstep
