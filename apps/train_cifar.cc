// Trains an image classifier on CIFAR-10, or on generated images where there is no --data, in
// lockstep on all ranks: mpirun -np N ./train_cifar

#include "apps/options/options.h"

int main(int argc, char** argv) {
  return lockstep::run_training_program(argc, argv, {.name = "train_cifar", .dataset = "cifar10"});
}
