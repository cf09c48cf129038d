// The tensors of the benchmarks lie in memory of the device, which is closed to the host.
#include <gtest/gtest.h>

#include "bench/affine_bench.h"
#include "tests/support/async_device.h"

namespace lockstep {
namespace {

TEST(AffineBench, RunsAllPassesInMemoryOfTheDevice) {
  const auto device = make_async_device();
  const auto run = [](AffineBench bench) {
    bench.forward();
    bench.backward_weights();
    bench.backward_data();
    bench.synchronize();
  };
  run({*device, ConvolutionSpec{.input = {.x = {2, 6, 6, 4}}, .filters = 8, .kernel = 3}});
  run({*device, DenseSpec{.input = {.x = {5, 40}}, .features = 7}});
}

}  // namespace
}  // namespace lockstep
