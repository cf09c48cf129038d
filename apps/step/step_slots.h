// StepSlots: the steps that a device has begun and whose totals are not collected yet.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "apps/step/step_header.h"
#include "net/parameters.h"
#include "src/device/device.h"

namespace lockstep {

/// The results of a step for the host.
struct StepAnswer {
  float header[Layout::kHeader];  ///< the sum over shards and ranks
  double penalty;
};

/// One thread.
class StepSlots {
 public:
  struct Slot {
    Memory input_memory, answer_memory;  ///< of the host
    std::unique_ptr<Event> done;

    StepInput* input() const { return reinterpret_cast<StepInput*>(input_memory.get()); }
    StepAnswer* answer() const { return reinterpret_cast<StepAnswer*>(answer_memory.get()); }
  };

  /// For 1 + DeviceTraits::run_ahead steps at once.
  explicit StepSlots(Device& device) : ahead_(device.traits().run_ahead) {
    for (int slot = 0; slot <= ahead_; ++slot) {
      slots_.push_back({device.allocate(sizeof(StepInput), Place::host),
                        device.allocate(sizeof(StepAnswer), Place::host), device.event()});
    }
  }

  /// The slot of the next step, until enqueued() is called.
  Slot& next() {
    expect(under_way() < static_cast<std::int64_t>(slots_.size()),
           "a step is enqueued before the totals of an older one are collected");
    return slot(enqueued_);
  }
  /// The step of next() is enqueued.
  void enqueued() { ++enqueued_; }
  Slot& last() { return slot(enqueued_ - 1); }
  /// The oldest step that is not collected, which now is. Null: there is none, or no more are under
  /// way than the device may run ahead and `all` is false.
  Slot* collect(bool all) {
    if (under_way() == 0 || (under_way() <= ahead_ && !all)) return nullptr;
    return &slot(collected_++);
  }
  /// Steps that are not collected although the device has done them.
  int done() {
    int count = 0;
    while (count < under_way() && slot(collected_ + count).done->done()) ++count;
    return count;
  }
  /// Steps that were enqueued since restart().
  std::int64_t count() const { return enqueued_ - first_; }
  /// The next step is the first of another kind.
  void restart() { first_ = enqueued_; }
  std::int64_t under_way() const { return enqueued_ - collected_; }

 private:
  Slot& slot(std::int64_t number) { return slots_[number % slots_.size()]; }

  int ahead_;
  std::vector<Slot> slots_;  ///< step number n since construction: n mod their number
  std::int64_t enqueued_ = 0, collected_ = 0;  ///< steps since construction
  std::int64_t first_ = 0;                     ///< those before restart()
};

}  // namespace lockstep
