// main() of the tests on a GPU without MPI.
#include <gtest/gtest.h>

#include "tests/support/gpu.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (const int code = lockstep::skip_without_gpu(); code != 0) return code;
  return RUN_ALL_TESTS();
}
