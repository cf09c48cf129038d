// MPI's own communicator behind a Comm, and MPI's errors: for collectives/ and its tests alone.
#pragma once

#include <mpi.h>

#include <optional>
#include <source_location>

#include "collectives/comm/comm.h"

namespace lockstep {

class Record;

/// Throws Error with MPI's own text and the place unless `code` is MPI_SUCCESS.
void check(int code, std::source_location at = std::source_location::current());

/// Returns errors instead of aborting. An owned one is freed in the destructor, which is collective
/// then, but not while an exception unwinds.
struct Communicator {
  Communicator(MPI_Comm handle, bool owned);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  MPI_Comm handle;
  bool owned;
};

/// While it lives, this rank is inside of a call that returns when others have made it too, so that
/// its silence is their fault (Record::collective). Comm's methods say so themselves.
class Waiting {
 public:
  Waiting();
  ~Waiting();
  /// From now on the record that hears of it; null: none does.
  static void tell(Record* record);
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
};

/// The lowest rank of each node, on these ranks; none on the others. `node`: all.node().
/// Collective over `all`.
std::optional<Comm> leaders_of(const Comm& all, const Comm& node);

inline MPI_Comm raw(const Comm& comm) { return comm.communicator().handle; }

}  // namespace lockstep
