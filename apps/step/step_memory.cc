#include "apps/step/step_memory.h"

#include <cstring>
#include <utility>

namespace lockstep {

StepMemory::StepMemory(Device& device, Stream& stream, const Layout& layout, Optimizer& optimizer,
                       const UpdateOptions& options, std::uint64_t seed, const TrainingState& given)
    : device_(device),
      stream_(stream),
      layout_(layout),
      slot_names_(optimizer.slots()),
      state_(given) {
  const std::vector<float> decays = lockstep::decays(layout, options.weight_decay);
  const bool average = options.ema > 0;
  const std::size_t count = 1 + slot_names_.size() + (average ? 1 : 0);
  arenas_ = device.allocate(count * arena_bytes() + decays.size() * sizeof(float), Place::device);
  cut_arenas(average);
  state_.lanes = device.traits().lanes;
  write_decays(decays);
  optimizer.plan(device, layout);
  if (optimizer.layerwise()) {
    layer_scratch_ = device.allocate(sizeof(LayerScratch), Place::device);
    state_.scratch = reinterpret_cast<LayerScratch*>(layer_scratch_.get());
  }
  initialize(layout, seed, read(state_.parameters));
  write(state_.parameters);
  if (average) device.copy(stream, state_.average, state_.parameters, arena_bytes());
  stream.synchronize();
}

void StepMemory::cut_arenas(bool average) {
  float* next = reinterpret_cast<float*>(arenas_.get());
  const auto next_arena = [&] { return std::exchange(next, next + layout_.count); };
  state_.parameters = next_arena();
  for (std::size_t slot = 0; slot < slot_names_.size(); ++slot)
    state_.slots.push_back(next_arena());
  if (average) state_.average = next_arena();
  state_.decays = next;
}

void StepMemory::write_decays(const std::vector<float>& decays) {
  const std::size_t bytes = decays.size() * sizeof(float);
  // `host` lives until the end of this function, so the copy is waited for.
  const Memory host = device_.allocate(bytes, Place::host);
  std::memcpy(host.get(), decays.data(), bytes);
  device_.copy(stream_, const_cast<float*>(state_.decays), host.get(), bytes);
  stream_.synchronize();
}

std::vector<Section> StepMemory::sections() {
  std::vector<Section> sections{{"parameters", read(state_.parameters)}};
  for (std::size_t slot = 0; slot < slot_names_.size(); ++slot) {
    sections.push_back(
        {"optimizer/" + slot_names_[slot], read(state_.slots[slot]), /*trained_only=*/true});
  }
  if (state_.average) sections.push_back({"ema", read(state_.average)});
  return sections;
}

void StepMemory::restored() {
  write(state_.parameters);
  for (float* slot : state_.slots) write(slot);
  if (state_.average) write(state_.average);
}

float* StepMemory::read(const float* arena) {
  if (device_.traits().memory_is_host) {
    stream_.synchronize();
    return const_cast<float*>(arena);
  }
  Memory& copy = copies_[arena];
  if (!copy) copy = device_.allocate(arena_bytes(), Place::host);
  device_.copy(stream_, copy.get(), arena, arena_bytes());
  stream_.synchronize();
  return reinterpret_cast<float*>(copy.get());
}

void StepMemory::write(float* arena) {
  if (device_.traits().memory_is_host) return;
  device_.copy(stream_, arena, copies_.at(arena).get(), arena_bytes());
  stream_.synchronize();
}

}  // namespace lockstep
