// Options of the run's length, its batches and its learning rate.
#pragma once

#include <cstdint>

#include "net/rate.h"
#include "src/base/option_rows.h"
#include "src/data/dataset.h"

namespace lockstep {

struct ScheduleOptions {
  std::int64_t steps = 0;             ///< 0: set by epochs, or by the data set's default
  double epochs = 0;                  ///< 0: set by steps
  std::int64_t default_steps = 1000;  ///< the data set's
  /// Samples per rank and step; 0: 128 for the whole run, as in the tutorial.
  std::int64_t batch = 0;
  std::int64_t global_batch = 0;  ///< samples of all ranks per step; 0: batch * ranks
  /// Parts of the global batch whose gradients are added in one fixed tree; 0: one per rank.
  int shards = 0;
  int accumulate = 1;  ///< shards of each rank if shards is 0
  std::uint64_t seed = 1;
  RateOptions rate;
  std::int64_t rate_batch = 0;  ///< global batch that rate.base is meant for; 0: any
  /// Set on the command line or in the config file: a resumed run takes the others from its
  /// checkpoint.
  bool seed_given = false, batch_given = false, shards_given = false;

  /// `by_default`: the data set that the program trains on.
  void declare(OptionRows& rows, const DatasetEntry& by_default);

 private:
  void declare_rate(OptionRows& rows);
};

}  // namespace lockstep
