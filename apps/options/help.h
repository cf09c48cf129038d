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

/// The help of one option. Texts may be empty.
struct OptionText {
  explicit OptionText(const OptionRow& row);

  std::string name;        ///< "--lr NUMBER"
  std::string headline;    ///< the noun phrase
  std::string by_default;  ///< "0.1; adam 0.001"
  std::string details;     ///< sentences that only the full help prints
  std::string values;      ///< "fp32, bf16"
  std::string type;        ///< "number above 0"
};

/// `text` with its lines broken at spaces to fit `columns`. Broken lines continue after `indent`
/// spaces.
std::string wrapped(const std::string& text, std::size_t indent, std::size_t columns);

/// The common rows, or `all`, in groups. Without common rows it is always all of them.
std::string help_text(OptionRows& rows, const ProgramText& program, bool all);
/// A command with `row` that works as it is, except for the files that it names.
std::string example(OptionRows& rows, const OptionRow& row, const ProgramText& program);
/// All about `row`, with an example.
std::string option_help(OptionRows& rows, const OptionRow& row, const ProgramText& program);
/// The page of section 1 in the macros of man(7).
std::string man_page(OptionRows& rows, const ProgramText& program);
/// A bash script that completes names of options, and values of those that choose from names.
std::string completion(OptionRows& rows, const ProgramText& program);

/// The registries of models, data sets, optimizers, schedules, reducers, policies, devices,
/// convolutions and instruction sets, for --list.
std::string registries_text();

/// main() of a program that may only be asked for an answer (--help): run_main() with `run`, or
/// rank 0 prints what `parse` has put into `answer`. `parse` reads the command line. It throws the
/// usage Error, or returns whether there is anything to run. It may be called again, because an
/// answer needs no MPI in a process without a launcher. If only SLURM knows the tasks, the first
/// prints the answer.
int run_or_print_help(int argc, char** argv, const char* program,
                      const std::function<bool(std::string& answer)>& parse,
                      const std::function<int(World&)>& run, Start start = Start::ranks);

/// main() of a program that is one process and needs no MPI: the same, without ranks. An Error
/// becomes a line on stderr and the exit code.
int run_without_ranks(const char* program, const std::function<bool(std::string& answer)>& parse,
                      const std::function<int()>& run);

}  // namespace lockstep
