// The main() of a program of apps/use.
#pragma once

#include "apps/options/command_line.h"
#include "apps/options/help.h"
#include "apps/use/use.h"

namespace lockstep {

/// Reads the options that `declare` adds, then calls run(world, options). Returns the exit code.
template <class Options>
int run_use(int argc, char** argv, const UseProgram& program, const ProgramText& text,
            void (*declare)(OptionRows&, Options&), const auto& run, Start start = Start::single) {
  Options options;
  const auto declare_all = [&](OptionRows& rows) {
    program.begin();
    options = {};
    options.program = program.name;
    declare(rows, options);
  };
  return run_or_print_help(
      argc, argv, program.name.c_str(), reader_of(argc, argv, text, declare_all),
      [&](World& world) { return run(world, options); }, start);
}

}  // namespace lockstep
