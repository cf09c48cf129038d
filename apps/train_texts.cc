// Trains a classifier on texts of your own, from a folder or a CSV file: mpirun -np N ./train_texts
// --data reviews.csv

#include "apps/run/training_program.h"

int main(int argc, char** argv) {
  return lockstep::run_training_program(
      argc, argv, {.name = "train_texts", .dataset = "texts", .recipe = {{"eval-every", "epoch"}}});
}
