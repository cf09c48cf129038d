// What a program prints instead of doing its work: --help, --version, --list.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "collectives/world.h"

namespace lockstep {

/// `text` with its lines broken at spaces to fit 80 columns; what goes on is indented by `indent`.
std::string wrapped(const std::string& text, std::size_t indent);

/// The help of `app`, which fits 80 columns.
std::string help_text(const CLI::App& app);

/// main() of a program that may be asked for an answer alone (--help): run_main() with `run`, or
/// rank 0 prints what `parse` has put into `answer`. `parse` reads the command line: it throws the
/// usage Error, or returns whether there is anything to run. It may be called again: where this
/// process was started without a launcher, an answer needs no MPI, and of tasks that only SLURM
/// knows of the first prints it.
int run_or_print_help(int argc, char** argv, const char* program,
                      const std::function<bool(std::string& answer)>& parse,
                      const std::function<int(World&)>& run);

}  // namespace lockstep
