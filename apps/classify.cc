// Prints the classes of image files or texts by a trained checkpoint.

#include "apps/use/use.h"

int main(int argc, char** argv) { return lockstep::classify_main(argc, argv, {"classify"}); }
