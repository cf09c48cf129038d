// RunSetup: what a run computes with, on all ranks. The trainer and the benchmark of its step set
// up the same.
#pragma once

#include <memory>
#include <string>

#include "apps/run/options.h"
#include "apps/step/placement.h"
#include "apps/step/run_plan.h"
#include "apps/step/training_step.h"
#include "collectives/world.h"
#include "src/data/dataset.h"
#include "src/device/device.h"

namespace lockstep {

/// For the watchdog: seconds that a phase may take which waits for a file system.
inline constexpr double kSlowFiles = 600;

/// All calls are collective and throw AgreedError; call them in the order in which they stand here.
/// Owner: train() or main()'s body, which keeps `world` and `options` alive. Everything that is
/// made from it goes before it. Thread: the computing one.
class RunSetup {
 public:
  /// Places the ranks and opens the data. `shape` may leave the threads open.
  RunSetup(World& world, const Options& options, const RunShape& shape);

  void plan_steps(const Position& start = {});
  /// The device of the options, unless there is a `given` one, which outlives this.
  void choose_device(Device* given = nullptr);
  /// Measures the libraries' kernels if the device can. `before`: the tuning() of the run that goes
  /// on; empty: a new run.
  void choose_kernels(const std::string& before = {});
  /// `timeline`: outlives the step; null: none is kept.
  TrainingStep make_step(Timeline* timeline = nullptr) const;
  std::unique_ptr<Loader> make_loader(const TrainingStep& step) const;

  World& world;
  const Options& options;
  const ModelEntry& entry;
  Record& record;  ///< of this rank
  Comm comm;
  RunShape shape;
  Placement placement;
  DatasetPair data;
  RunPlan plan;
  Device* device = nullptr;

 private:
  std::unique_ptr<Device> own_device_;
};

/// Throws a usage Error if `device` has no activations of `type`.
void require_precision(const Device& device, Type type);

/// Collective: tune() (apps/step/tuning.h) for a model on batches of `batch` samples of `dataset`.
void choose_kernels(World& world, Device& device, const ModelEntry& entry, const Dataset& dataset,
                    std::int64_t batch, Type type, bool training, const std::string& before = {});

}  // namespace lockstep
