#include <fmt/format.h>

#include "apps/options/help.h"
#include "apps/options/run_options.h"
#include "collectives/buckets.h"
#include "collectives/reducer.h"
#include "net/description/layer_kinds.h"
#include "net/model.h"
#include "src/device/cpu/convolution.h"
#include "src/device/cpu/instruction_set.h"
#include "src/device/devices.h"

namespace lockstep {
namespace {

/// Calls `visit` with each registry: its heading in --list and the option that chooses from it.
template <class Visit>
void each_registry(const Visit& visit) {
  visit("models", "--model", models());
  visit("layers of a file", "", layer_kinds());
  visit("data sets", "--dataset", datasets());
  visit("optimizers", "--optimizer", optimizers());
  visit("learning-rate schedules", "--lr-schedule", rate_schedules());
  visit("reducers", "--reducer", reducers());
  visit("progress policies", "--progress", policies());
  visit("devices", "--device", devices());
  visit("convolutions", "--conv", convolutions());
  visit("instruction sets", "--isa", instruction_sets());
}

}  // namespace

std::string registries_text() {
  std::string text;
  each_registry([&](const char* heading, const char*, const auto& registry) {
    text += fmt::format("{}\n", heading);
    for (const auto& entry : registry)
      text += fmt::format("  {:<18} {}\n", entry.name, entry.about);
  });
  return wrapped(text, /*indent=*/21, /*columns=*/79);
}

void add_choices(OptionRows& rows) {
  each_registry([&](const char*, const char* option, const auto& registry) {
    if (OptionRow* row = rows.find(option))
      for (const auto& entry : registry) row->values.emplace_back(entry.name);
  });
}

}  // namespace lockstep
