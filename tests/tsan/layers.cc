// The sweep over the layers whose work is done later, under ThreadSanitizer.
#include "tests/unit/layers.cc"
