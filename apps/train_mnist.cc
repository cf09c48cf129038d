// Trains an image classifier on MNIST, or without --data on generated digits: mpirun -np N
// ./train_mnist

#include "apps/run/training_program.h"

int main(int argc, char** argv) {
  return lockstep::run_training_program(argc, argv, {.name = "train_mnist", .dataset = "mnist"});
}
