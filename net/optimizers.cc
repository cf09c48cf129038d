// The registry of optimizers. An optimizer is one file in net/optimizers and one word in the list
// here.

#include "net/optimizer.h"
#include "src/base/registry.h"
#include "src/base/table.h"

// In the order of --list.
#define LOCKSTEP_OPTIMIZERS(row) \
  row(sgd) row(adam) row(adamw) row(rmsprop) row(nadam) row(lars) row(lamb) row(muon)

namespace lockstep {

LOCKSTEP_REGISTRY(OptimizerEntry, optimizers, LOCKSTEP_OPTIMIZERS)

std::unique_ptr<Optimizer> make_optimizer(std::string_view name, const OptimizerOptions& options) {
  const OptimizerEntry& entry = find(optimizers(), name);
  OptimizerOptions all;
  for (const OptimizerOption& option : entry.options) all.emplace(option.name, option.value);
  for (const auto& [key, value] : options) {
    expect(all.contains(key), "an optimizer was given another's option");
    all[key] = value;
  }
  return entry.make(all);
}

std::string describe_optimizer(std::string_view name, const OptimizerOptions& options) {
  std::string text(name);
  for (const OptimizerOption& option : find(optimizers(), name).options) {
    const auto given = options.find(option.name);
    const float value = given == options.end() ? option.value : given->second;
    if (value == 0) continue;
    text += fmt::format(", {}", option.name);
    if (option.kind != OptimizerOption::Kind::flag) text += fmt::format(" {:g}", value);
  }
  return text;
}

}  // namespace lockstep
