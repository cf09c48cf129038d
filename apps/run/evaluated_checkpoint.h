// A checkpoint as evaluate sees it, without its weights, and the test set as its network sees it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/comm/comm.h"
#include "net/checkpoint.h"
#include "src/data/dataset.h"

namespace lockstep {

struct EvaluatedCheckpoint {
  std::string file, dataset, model, precision;
  std::string weights;   ///< "ema": the moving average; "raw": the weights themselves
  std::string data;      ///< the identity of its data; empty in early checkpoints
  TrainedImages images;  ///< no class names in early checkpoints
  std::int64_t step = 0;
  std::uint64_t seed = 0;

  const char* section() const { return weights == "ema" ? "ema" : "parameters"; }
};

/// Collective. Describes `checkpoint`, which rank 0 has open; the others pass null. `weights`: auto
/// (the average if the file holds one), ema or raw. Throws a usage Error if it holds no average and
/// `weights` is ema, Error if no training program wrote the file.
EvaluatedCheckpoint describe(const Comm& comm, const Checkpoint* checkpoint,
                             const std::string& weights);

/// The test set; `train` may be null. Images are normalised as in training, and labels are those of
/// the checkpoint's classes. Throws a usage Error if `directory` is empty and the data have files,
/// or the other way round. `notes` gains a line if the data are others, or if the training images
/// give the normalisation.
DatasetPair open_test_set(const EvaluatedCheckpoint& checkpoint, const std::string& directory,
                          std::vector<std::string>& notes);

}  // namespace lockstep
