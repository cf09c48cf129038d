// StepMemory: the arenas of a run on one rank, and their copies for the host.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "net/checkpoint.h"
#include "net/optimizer.h"
#include "net/update_options.h"
#include "src/device/device.h"

namespace lockstep {

/// Parameters, slots of the optimizer, and the average. One thread.
class StepMemory {
 public:
  /// Plans `optimizer` and allocates all memory. Initial weights are those of `seed`, the same on
  /// all ranks; the average, if `options` ask for one, begins with them. `given` has the gradients
  /// (layout.count floats) and the shared work (null: none). All but `options` outlive it. Throws
  /// Error if memory is short.
  StepMemory(Device& device, Stream& stream, const Layout& layout, Optimizer& optimizer,
             const UpdateOptions& options, std::uint64_t seed, const TrainingState& given);

  const Layout& layout() const { return layout_; }
  /// The device's arenas.
  const TrainingState& state() const { return state_; }
  /// The arenas of a checkpoint as read() returns them. Valid until the next step. The average is
  /// the last, if there is one.
  std::vector<Section> sections();
  /// The weights, as sections() has them.
  const float* weights() { return read(state_.parameters); }
  /// The values that the host has written to sections() become the state of the run. Blocks.
  void restored();
  /// `arena`, layout.count floats of the device, as the host sees it when all work of the stream is
  /// done: blocks until then. Valid until the next call for this arena. It is the arena itself if
  /// the device's memory is the host's, else a copy that stays allocated.
  float* read(const float* arena);
  /// Bytes of all sections.
  std::size_t saved_bytes() const {
    return (1 + state_.slots.size() + (state_.average != nullptr)) * arena_bytes();
  }
  /// Bytes of the slots, with the decay of each 16 elements.
  std::size_t optimizer_bytes() const {
    return state_.slots.size() * arena_bytes() + arena_bytes() / Layout::kAlignment;
  }
  std::size_t arena_bytes() const { return layout_.count * sizeof(float); }

 private:
  void cut_arenas(bool average);
  void write_decays(const std::vector<float>& decays);
  /// The host's version of read(arena) becomes the arena's. Blocks.
  void write(float* arena);

  Device& device_;
  Stream& stream_;
  const Layout& layout_;
  const std::vector<std::string> slot_names_;
  std::map<const float*, Memory> copies_;  ///< the host's, by arena
  Memory arenas_;                          ///< parameters, slots, average, decays
  Memory layer_scratch_;                   ///< for a layerwise optimizer
  TrainingState state_;
};

}  // namespace lockstep
