// Loaders and resident sets on a GPU, with the cases of tests/unit/device_loaders.cc.
#include "tests/unit/device_loaders.cc"
