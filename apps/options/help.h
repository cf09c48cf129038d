// Answers that a program prints instead of doing its work: --help, --version, --list.
#pragma once

#include <functional>
#include <string>

#include "collectives/world.h"
#include "src/base/option_rows.h"

namespace lockstep {

/// A program as its help and its man page describe it.
struct ProgramText {
  std::string name;   ///< "train_cifar"
  std::string about;  ///< a sentence without its full stop
  std::string usage;  ///< "mpirun -np 4 train_cifar [OPTIONS]"
};

/// `text` with its lines broken at spaces to fit `columns`. Broken lines continue after `indent`
/// spaces.
std::string wrapped(const std::string& text, std::size_t indent, std::size_t columns);

/// The groups of `rows`, each once, in order.
std::vector<std::string> groups_of(OptionRows& rows);

/// "--lr NUMBER"
std::string signature(const OptionRow& row);
/// The noun phrase of the help, without the default.
std::string headline(const OptionRow& row);
/// "0.1; adam 0.001"; empty if the option is off or not set by default.
std::string default_text(const OptionRow& row);
/// The sentences that only the full help prints; may be empty.
std::string details(const OptionRow& row);

/// The common rows, or `all`, in groups. Without common rows it is always all of them.
std::string help_text(OptionRows& rows, const ProgramText& program, bool all);
/// All about `row`, with an example and the related options.
std::string option_help(OptionRows& rows, const OptionRow& row, const ProgramText& program);

/// main() of a program that may only be asked for an answer (--help): run_main() with `run`, or
/// rank 0 prints what `parse` has put into `answer`. `parse` reads the command line. It throws the
/// usage Error, or returns whether there is anything to run. It may be called again, because an
/// answer needs no MPI in a process without a launcher. If only SLURM knows the tasks, the first
/// prints the answer.
int run_or_print_help(int argc, char** argv, const char* program,
                      const std::function<bool(std::string& answer)>& parse,
                      const std::function<int(World&)>& run);

}  // namespace lockstep
