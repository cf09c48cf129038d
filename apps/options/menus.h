// Menus: the names that options choose from, for --list, for the help and for completion.
#pragma once

#include <string>

#include "src/base/option_rows.h"

namespace lockstep {

/// The registries of models, data sets, optimizers, schedules, reducers, policies, devices,
/// convolutions and instruction sets, for --list.
std::string menus();

/// Adds the names to choose from to the rows that have some.
void add_choices(OptionRows& rows);

}  // namespace lockstep
