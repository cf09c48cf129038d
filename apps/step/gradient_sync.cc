#include "apps/step/gradient_sync.h"

namespace lockstep {

GradientSync::GradientSync(StepParts& parts, const SumSpec& spec)
    : policy_(parts.policy),
      reducer_(std::move(parts.reducer)),
      sync_bn_(std::move(parts.sync_bn)),
      dense_(
          std::make_unique<DenseSum>(spec, *reducer_, std::move(parts.buckets), policy_, slots())) {
  for (const Parameter& parameter : spec.layout.parameters) {
    const auto number = static_cast<std::size_t>(parameter.layer);
    if (ranges_.size() <= number) ranges_.resize(number + 1);
    ranges_[number] = spec.layout.range_of(parameter.layer);
  }
  listeners_.resize(slots().count());
}

GradientListener& GradientSync::of(int shard, int slot) {
  Listener& listener = listeners_[slot];
  listener.sync = this;
  listener.shard = shard;
  listener.slot = slot;
  return listener;
}

void GradientSync::rethrow_errors() {
  if (sync_bn_) sync_bn_->rethrow_errors();
  dense_->rethrow_errors();
}

void GradientSync::abort() noexcept {
  if (sync_bn_) sync_bn_->abort();
  dense_->abort();
}

std::size_t GradientSync::bytes() const {
  return reducer_->traits().bytes + dense_->bytes() + (sync_bn_ ? sync_bn_->bytes() : 0);
}

std::vector<Section> GradientSync::sections() const {
  float* const residual = reducer_->traits().residual;
  if (residual == nullptr) return {};
  return {{"wire", residual}};
}

}  // namespace lockstep
