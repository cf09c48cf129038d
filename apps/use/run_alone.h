// The main() of a program of apps/use that runs as one process.
#pragma once

#include "apps/options/command_line.h"
#include "apps/options/help.h"
#include "apps/use/use.h"

namespace lockstep {

/// Reads the options that `declare` adds, then calls `run`. `about` and `words` are for the help:
/// what the program does, and what follows its name. Returns the exit code.
template <class Options>
int run_alone(int argc, char** argv, const UseProgram& program, const char* about,
              const std::string& words, void (*declare)(OptionRows&, Options&),
              int (*run)(World&, const Options&)) {
  Options options;
  const ProgramText text{program.name, about, program.name + " " + words};
  const auto declare_all = [&](OptionRows& rows) {
    program.begin();
    options = {};
    options.program = program.name;
    declare(rows, options);
  };
  return run_or_print_help(
      argc, argv, program.name.c_str(), reader_of(argc, argv, text, declare_all),
      [&](World& world) { return run(world, options); }, Start::single);
}

}  // namespace lockstep
