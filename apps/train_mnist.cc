// Trains an image classifier on MNIST, or on generated digits where there is no --data, in lockstep
// on all ranks: mpirun -np N ./train_mnist

#include "apps/options/options.h"

int main(int argc, char** argv) {
  return lockstep::run_training_program(argc, argv, {.name = "train_mnist", .dataset = "mnist"});
}
