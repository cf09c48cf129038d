#include "apps/step/step_memory.h"

#include <cstring>
#include <utility>

namespace lockstep {

StepMemory::StepMemory(Device& device, Stream& stream, const Layout& layout, Optimizer& optimizer,
                       float weight_decay, bool average, std::uint64_t seed, const float* gradients,
                       SharedWork* shared)
    : stream_(stream),
      layout_(layout),
      slot_names_(optimizer.slots()),
      host_(device, layout.count) {
  const std::vector<float> decays = factors(layout, weight_decay);
  const std::size_t count = 1 + slot_names_.size() + (average ? 1 : 0);
  arenas_ = device.allocate(count * arena_bytes() + decays.size() * sizeof(float), Place::device);
  cut_arenas(average);
  state_.gradients = gradients;
  state_.shared = shared;
  write_decays(device, decays);
  optimizer.plan(device, layout);
  if (optimizer.layerwise()) {
    layer_scratch_ = device.allocate(sizeof(LayerScratch), Place::device);
    state_.scratch = reinterpret_cast<LayerScratch*>(layer_scratch_.get());
  }
  initialize(layout, seed, host_.read(stream, state_.parameters));
  host_.write(stream, state_.parameters);
  if (average) device.copy(stream, state_.average, state_.parameters, arena_bytes());
  stream.synchronize();
}

void StepMemory::cut_arenas(bool average) {
  float* next = reinterpret_cast<float*>(arenas_.get());
  const auto take = [&] { return std::exchange(next, next + layout_.count); };
  state_.parameters = take();
  for (std::size_t slot = 0; slot < slot_names_.size(); ++slot) state_.slots.push_back(take());
  if (average) state_.average = take();
  state_.factors = next;
}

void StepMemory::write_decays(Device& device, const std::vector<float>& decays) {
  const std::size_t bytes = decays.size() * sizeof(float);
  const Memory host = device.allocate(bytes, Place::host);
  std::memcpy(host.get(), decays.data(), bytes);
  device.copy(stream_, const_cast<float*>(state_.factors), host.get(), bytes);
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
  host_.write(stream_, state_.parameters);
  for (float* slot : state_.slots) host_.write(stream_, slot);
  if (state_.average) host_.write(stream_, state_.average);
}

std::size_t StepMemory::optimizer_bytes() const {
  return state_.slots.size() * arena_bytes() + arena_bytes() / Layout::kAlignment;
}

}  // namespace lockstep
