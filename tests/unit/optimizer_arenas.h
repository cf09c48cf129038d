// Shared by the tests of optimizers: small layouts, and the arenas of a run on one.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "net/optimizer.h"
#include "src/base/random.h"
#include "tests/support/layouts.h"
#include "tests/support/update.h"

namespace lockstep {

/// All arenas of a run on a layout.
class Arenas {
 public:
  Arenas(const Layout& layout, const Optimizer& optimizer, float weight_decay = 0)
      : decays_(decays(layout, weight_decay)),
        parameters(layout.count),
        gradients(parameters),
        average(parameters),
        slots(optimizer.slots().size(), parameters) {}

  /// Random numbers in all parameters; zeros in the step header and gaps.
  void fill(const Layout& layout) {
    Random random(1, Purpose::generate, 0, 0);
    std::vector<std::vector<float>*> all{&parameters, &gradients, &average};
    for (auto& slot : slots) all.push_back(&slot);
    for (auto* arena : all) {
      for (const Parameter& parameter : layout.parameters) {
        for (std::int64_t i = parameter.range.begin; i < parameter.range.end(); ++i) {
          // Squares of gradients, as Adam keeps them, are not negative.
          (*arena)[i] = std::abs(random.normal());
        }
      }
    }
  }
  TrainingState state() {
    TrainingState state{parameters.data(), {}, average.data(), gradients.data(), decays_.data()};
    for (auto& slot : slots) state.slots.push_back(slot.data());
    state.scratch = &scratch_.scratch;
    return state;
  }
  /// One step of all parameters. `shared`: the other ranks' part of the work.
  void step(const Layout& layout, const Optimizer& optimizer, const UpdateRates& now,
            SharedWork* shared = nullptr) {
    HostStream stream;
    TrainingState all = state();
    all.shared = shared;
    update(stream, layout, {0, layout.count}, optimizer, all, &now);
  }
  bool operator==(const Arenas&) const = default;

 private:
  struct Scratch {
    LayerScratch scratch;
    bool operator==(const Scratch&) const { return true; }  // nothing is kept in it
  };
  std::vector<float> decays_;
  Scratch scratch_;

 public:
  std::vector<float> parameters, gradients, average;
  std::vector<std::vector<float>> slots;
};

inline Layout one_parameter(Shape shape, float l2 = 0) {
  return lay_out({{"one/weights", shape, l2}});
}

/// The rates of a step at which the learning rate is `rate`.
inline UpdateRates rates_of(const Optimizer& optimizer, std::int64_t step, double rate = 0.02) {
  return {static_cast<float>(rate), 0.9f, optimizer.corrections(step)};
}

/// Two weights (one with its own l2) around a bias, with gaps, as Model lays them out.
inline Layout small_layout() {
  return lay_out({{"two/weights", {3, 70001}, 0.5f}, {"two/biases", {3}}, {"one/weights", {5, 5}}});
}

}  // namespace lockstep
