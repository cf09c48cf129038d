// What a program prints instead of doing its work: --help, --version, --list.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <string_view>

namespace lockstep {

/// `text` with its lines broken at spaces to fit 80 columns; what goes on is indented by `indent`.
std::string wrapped(const std::string& text, std::size_t indent);

/// The help of `app`, which fits 80 columns.
std::string help_text(const CLI::App& app);

/// `text` on stdout. Throws Error where it cannot be written.
void print_answer(std::string_view text);

/// Prints what `answer` returns, if anything, and says so, where this process was started without
/// a launcher: --help and the like then need no MPI. Of tasks that only SLURM knows of, the first
/// prints. What goes wrong is left to be found again.
bool answered_without_ranks(const std::function<std::string()>& answer);

}  // namespace lockstep
