#include <fmt/format.h>

#include "apps/options/help.h"
#include "apps/options/run_options.h"
#include "collectives/buckets.h"
#include "collectives/reducer.h"
#include "net/description/layer_kinds.h"
#include "net/model.h"
#include "src/device/cpu/arithmetic.h"
#include "src/device/cpu/convolution.h"
#include "src/device/cpu/instruction_set.h"
#include "src/device/devices.h"

namespace lockstep {
namespace {

template <class Registry>
std::string section(const char* heading, const Registry& registry) {
  std::string text = fmt::format("{}\n", heading);
  for (const auto& entry : registry) text += fmt::format("  {:<18} {}\n", entry.name, entry.about);
  return text;
}

}  // namespace

std::string registries_text() {
  const std::string text =
      section("models", models()) + section("layers of a file", layer_kinds()) +
      section("data sets", datasets()) + section("optimizers", optimizers()) +
      section("learning-rate schedules", rate_schedules()) + section("reducers", reducers()) +
      section("progress policies", policies()) + section("devices", devices()) +
      section("convolutions", convolutions()) + section("arithmetics", arithmetics()) +
      section("instruction sets", instruction_sets());
  return wrapped(text, /*indent=*/21, /*columns=*/79);
}

}  // namespace lockstep
