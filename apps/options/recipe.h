// Recipes: options that a program, a model or the file of a network sets unless the user does.
#pragma once

#include <string>

#include "net/model.h"
#include "src/base/option_rows.h"

namespace lockstep {

/// Adds to the help of the options in `recipe` that `owner` sets them: "train_images". The help
/// shows their values as the defaults.
void describe_recipe(OptionRows& rows, const Recipe& recipe, const std::string& owner);

/// Sets the options of `recipe`, except those that the user overrides. Throws the usage error,
/// which names `from`, for a wrong value and for an option that chooses data or files.
void follow_recipe(OptionRows& rows, const Recipe& recipe, const std::string& from);

}  // namespace lockstep
