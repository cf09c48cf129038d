// StepParts: the model, the optimizer and the reducers of a step, chosen by the options of a run.
#pragma once

#include <memory>
#include <vector>

#include "apps/step/run_plan.h"
#include "apps/step/step_options.h"
#include "apps/step/sync_batch_norm.h"
#include "collectives/progress.h"
#include "collectives/reducer.h"
#include "net/model.h"
#include "net/optimizer.h"
#include "net/sizes/sized_models.h"
#include "src/data/dataset.h"
#include "src/data/loader.h"

namespace lockstep {

class World;

struct StepParts {
  std::unique_ptr<Model> model;   ///< for training on plan.shard_batch samples at a time
  std::vector<SmallModel> small;  ///< for its first epochs, with as many slots
  std::unique_ptr<Optimizer> optimizer;
  std::vector<Range> buckets;        ///< of the model's layout, in arena order
  double bucket_mb = 0;              ///< the size that the buckets were cut to
  std::unique_ptr<Reducer> reducer;  ///< for layout().count elements
  Policy policy = Policy::wait;
  /// The model has as many slots. Null: each shard has its own statistics.
  std::unique_ptr<SyncBatchNorm> sync_bn;
  /// Null: each rank computes all of an optimizer's step.
  std::unique_ptr<SharedWork> shared_work;
};

/// For the loader of this rank's shards of `plan`, from the first sample on.
LoaderSpec loader_spec(const RunPlan& plan);

/// Collective. The spec of the reducer for `count` gradients in these buckets.
ReducerSpec reducer_spec(const Comm& comm, Device& device, const StepOptions& options,
                         const RunPlan& plan, std::int64_t count,
                         const std::vector<Range>& buckets);

/// Collective. The spec of the reducer for statistics, in these buckets_of_statistics(). Statistics
/// are few numbers: NCCL sums them with a single thread block, and leaves the others to the layers.
/// They travel in fp32 whatever --wire is.
ReducerSpec statistics_spec(const Comm& comm, Device& device, const StepOptions& options,
                            const RunPlan& plan, const std::vector<Range>& buckets);

/// Collective: all ranks pass the same arguments. Throws AgreedError if parts do not fit each
/// other, or memory is short.
StepParts make_step_parts(const World& world, Device& device, const ModelEntry& entry,
                          const Dataset& dataset, const StepOptions& options, const RunPlan& plan);

}  // namespace lockstep
