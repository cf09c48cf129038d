// Training programs: their options, from the command line and the config file, and their main().
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "apps/options/run_options.h"
#include "net/model.h"

namespace lockstep {

/// A training program: its name, and the data set that it trains on with --data. Without --data it
/// trains on generated samples of the same shape.
struct Program {
  std::string name;
  std::string dataset = "cifar10";
  /// The default model. If it is empty, that of the data set.
  std::string model = {};
  /// The model that --as-published chooses. If it is empty, there is no such option.
  std::string as_published = {};
  /// Whether --image-size is that of the model by default.
  bool resizes = false;
  /// Options that the program sets, as in ModelEntry::recipe. Those of the model override them.
  Recipe recipe = {};
  /// The description in the help. Empty: the program trains.
  std::string about = {};
  /// Declares rows that the other programs do not have.
  std::function<void(OptionRows&)> declare_more = {};
  /// Is called before the command line is read, perhaps twice. Throws Error.
  std::function<void()> begin = {};
};

/// Reads the command line of `program`. Returns null if there is nothing to run (--help,
/// --version, --list): `text_to_print` then holds what rank 0 should print. Throws Error
/// (kExitUsage) with the nearest option's name, the file and line of a config file, or the range
/// of the value.
std::unique_ptr<const Options> parse_options(int argc, char** argv, const Program& program,
                                             std::string& text_to_print);

/// main() of a training program, from the command line to the exit code.
int run_training_program(int argc, char** argv, const Program& program);

}  // namespace lockstep
