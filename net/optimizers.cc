// The menu of optimizers. An optimizer is one file in net/optimizers and two words here.

#include <array>

#include "net/optimizer.h"
#include "src/base/table.h"

namespace lockstep {

OptimizerEntry sgd();
OptimizerEntry adam();
OptimizerEntry adamw();
OptimizerEntry rmsprop();
OptimizerEntry nadam();
OptimizerEntry lars();
OptimizerEntry lamb();
OptimizerEntry muon();

std::span<const OptimizerEntry> optimizers() {
  static const std::array menu{sgd(), adam(), adamw(), rmsprop(), nadam(), lars(), lamb(), muon()};
  return menu;
}

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
