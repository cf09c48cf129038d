// Trains a classifier on a folder of image files of any size: mpirun -np N ./train_images --data
// photos

#include "apps/run/training_program.h"

int main(int argc, char** argv) {
  return lockstep::run_training_program(argc, argv,
                                        {.name = "train_images",
                                         .dataset = "folder",
                                         .resizes = true,
                                         .recipe = {{"epoch-lines", "true"}, {"eval-every", "0"}}});
}
