// Trains a classifier of newswires on Reuters' topics, or without --data on generated texts: mpirun
// -np N ./train_reuters

#include "apps/run/training_program.h"

int main(int argc, char** argv) {
  return lockstep::run_training_program(
      argc, argv,
      {.name = "train_reuters", .dataset = "reuters", .as_published = "reuters_as_published"});
}
