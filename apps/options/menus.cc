#include "apps/options/menus.h"

#include <fmt/format.h>

#include "apps/options/help.h"
#include "apps/run/options.h"
#include "collectives/buckets.h"
#include "collectives/reducer.h"
#include "net/model.h"
#include "src/device/cpu/convolution.h"
#include "src/device/cpu/instruction_set.h"
#include "src/device/devices.h"

namespace lockstep {
namespace {

struct Menu {
  const char* title;   ///< its heading in --list
  const char* option;  ///< the option that chooses from it
  std::vector<std::string> names, lines;
};

template <class Registry>
Menu menu(const char* title, const char* option, const Registry& registry) {
  Menu result{title, option, {}, {}};
  for (const auto& entry : registry) {
    result.names.emplace_back(entry.name);
    result.lines.push_back(fmt::format("  {:<18} {}\n", entry.name, entry.about));
  }
  return result;
}

std::vector<Menu> all_menus() {
  return {menu("models", "--model", models()),
          menu("data sets", "--dataset", datasets()),
          menu("optimizers", "--optimizer", optimizers()),
          menu("learning-rate schedules", "--lr-schedule", rate_schedules()),
          menu("reducers", "--reducer", reducers()),
          menu("progress policies", "--progress", policies()),
          menu("devices", "--device", devices()),
          menu("convolutions", "--conv", convolutions()),
          menu("instruction sets", "--isa", instruction_sets())};
}

}  // namespace

std::string menus() {
  constexpr std::size_t kAbout = 21;  // the column at which an entry's text begins
  std::string text;
  for (const Menu& each : all_menus())
    text += fmt::format("{}\n{}", each.title, fmt::join(each.lines, ""));
  return wrapped(text, kAbout, /*columns=*/79);
}

void add_choices(OptionRows& rows) {
  const auto add = [&](const char* option, const std::vector<std::string>& names) {
    if (OptionRow* row = rows.find(option)) row->values = names;
  };
  for (const Menu& each : all_menus()) add(each.option, each.names);
  add("--precision", {"fp32", "bf16", "fp16"});
  add("--wire", {"fp32", "bf16", "fp16"});
  add("--weights", {"auto", "ema", "raw"});
  add("--resume", {"auto", "never"});
  add("--loss-scale", {"auto", "none", "dynamic"});
}

}  // namespace lockstep
