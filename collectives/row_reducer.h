// RowReducer: the sum of a gradient of which few rows are not 0 (src/device/sparse_rows.h), over
// the shards of a rank and over the ranks: each gets the rows of all and adds them itself, in the
// canonical order (collectives/schedule.h).
//
// A row that a shard has not is one of zeros, and x + 0 is x: the sum has the bits of the dense one
// in that order.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/comm/comm.h"
#include "collectives/schedule.h"
#include "src/device/sparse_rows.h"

namespace lockstep {

/// Adds what comes one after another in the canonical order: a partial sum per level of the tree.
class RowSum {
 public:
  RowSum(std::int64_t rows, std::int64_t width, int parts);
  /// Part number `part`, in order. Of the last one `rows` becomes the sum of all, else it is empty
  /// then.
  void take(int part, SparseRows& rows);
  std::size_t bytes() const;

 private:
  int parts_;
  std::vector<SparseRows> levels_;
};

/// What there is to sum in a step.
struct RowWork {
  std::int64_t rows = 0, width = 0;  ///< of the table
  int ranks = 1, own_shards = 1;
  std::int64_t places = 0;    ///< of a rank's shards: values that are added to rows
  std::int64_t expected = 0;  ///< rows of a rank's shards that are not 0
};

/// Seconds of a rank from the values to the sum of all, as rows and dense; with `link` null within
/// a host, where the dense sum is in memory that all ranks see, else by the cheapest canonical
/// algorithm.
struct RowCost {
  double rows = 0, dense = 0;
};
RowCost cost_of_rows(const RowWork& work, const Link* link);

class RowReducer {
 public:
  /// Collective. `comm` is its own; `most`: rows of one rank in one step. If ranks pass different
  /// rows, width or most, all throw the same error.
  RowReducer(const Comm& comm, std::int64_t rows, std::int64_t width, int own_shards,
             std::int64_t most);
  ~RowReducer();

  /// Own shard number `shard`, in order: what is in `rows` is taken. With the last the exchange
  /// begins.
  void take(int shard, SparseRows& rows);
  /// Moves the exchange on; whether it is done.
  bool advance();
  /// Blocks until it is done, then writes the sum to `table`, which nobody else writes: the rows of
  /// the step before become zeros.
  void finish(float* table);

  std::size_t bytes() const;

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace lockstep
