// main() of the training programs.
#pragma once

#include "apps/options/options.h"

namespace lockstep {

/// Everything from the command line to the exit code.
int run_training_program(int argc, char** argv, const Program& program);

}  // namespace lockstep
