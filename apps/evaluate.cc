// Evaluates checkpoints on the test set: once, or every new one in a folder. mpirun -np N
// ./evaluate shares the work.

#include "apps/use/use.h"

int main(int argc, char** argv) { return lockstep::evaluate_main(argc, argv, {"evaluate"}); }
