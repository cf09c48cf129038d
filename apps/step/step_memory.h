// StepMemory: the arenas of a run on one rank, and their copies for the host.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/step/host_copy.h"
#include "net/checkpoint.h"
#include "net/optimizer.h"
#include "src/device/device.h"

namespace lockstep {

/// Parameters, slots of the optimizer, and the average. One thread.
class StepMemory {
 public:
  /// Plans `optimizer` and takes all memory. Initial weights are those of `seed`, the same on all
  /// ranks; the average, if `average`, begins with them. `device`, `stream`, `layout`, `gradients`
  /// (layout.count floats) and `shared` (null: none) outlive it. Throws Error if memory is short.
  StepMemory(Device& device, Stream& stream, const Layout& layout, Optimizer& optimizer,
             float weight_decay, bool average, std::uint64_t seed, const float* gradients,
             SharedWork* shared);

  /// The device's arenas.
  const TrainingState& state() const { return state_; }
  /// The arenas of a checkpoint as the host sees them when all work of the stream is done: blocks
  /// until then. Valid until the next step. The average is the last, if there is one.
  std::vector<Section> sections();
  /// The values that the host has written to sections() become the state of the run. Blocks.
  void restored();
  /// `arena`, layout.count floats of the device, as the host sees it: blocks. Valid until the next
  /// call for this arena.
  float* read(const float* arena) { return host_.read(stream_, arena); }
  /// Bytes of all sections.
  std::size_t saved_bytes() const { return arenas() * arena_bytes(); }
  /// Bytes of the slots, with the decay of each 16 elements.
  std::size_t optimizer_bytes() const;
  std::size_t arena_bytes() const {
    return static_cast<std::size_t>(layout_.count) * sizeof(float);
  }

 private:
  std::size_t arenas() const { return 1 + state_.slots.size() + (state_.average != nullptr); }
  void cut_arenas(bool average);
  void write_decays(Device& device, const std::vector<float>& decays);

  Stream& stream_;
  const Layout& layout_;
  const std::vector<std::string> slot_names_;
  HostCopy host_;
  Memory arenas_;         ///< parameters, slots, average, decays
  Memory layer_scratch_;  ///< of a layerwise optimizer
  TrainingState state_;
};

}  // namespace lockstep
