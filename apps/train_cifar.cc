// Trains an image classifier on CIFAR-10, or without --data on generated images: mpirun -np N
// ./train_cifar

#include "apps/run/training_program.h"

int main(int argc, char** argv) {
  return lockstep::run_training_program(argc, argv, {.name = "train_cifar", .dataset = "cifar10"});
}
