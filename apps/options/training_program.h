// main() of the training programs.
#pragma once

#include "apps/options/options.h"

namespace lockstep {

/// All that train_cifar and its like do, from the command line to the exit code.
int run_training_program(int argc, char** argv, const Program& program);

}  // namespace lockstep
