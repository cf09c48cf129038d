// The tensors of the benchmarks lie in memory of the device, and work there may use them.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "bench/affine_bench.h"
#include "tests/support/async_device.h"

namespace lockstep {
namespace {

std::vector<float> values_of(Device& device, View view) {
  const Memory host = device.allocate(view.bytes(), Place::host);
  const std::unique_ptr<Stream> stream = device.stream();
  device.copy(*stream, host.get(), view.data, view.bytes());
  stream->synchronize();
  std::vector<float> values;
  dispatch(view.type, [&]<class T>(T*) {
    const T* from = reinterpret_cast<const T*>(host.get());
    values.assign(from, from + view.count());
  });
  return values;
}

TEST(NoiseTensors, AreTheSameOnADeviceWhoseMemoryIsClosedToTheHost) {
  const auto later = make_async_device(), cpu = make_cpu_device(1);
  NoiseTensors there(*later), here(*cpu);
  std::vector<float> last;
  for (const Type type : {Type::f32, Type::bf16, Type::f32}) {
    const std::vector<float> values = values_of(*later, there.tensor({20, 30}, type, 3));
    EXPECT_EQ(values, values_of(*cpu, here.tensor({20, 30}, type, 3)));
    EXPECT_NE(values, last);
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    EXPECT_LT(*least, -2.5f);
    EXPECT_GE(*least, -3);
    EXPECT_GT(*most, 2.5f);
    EXPECT_LE(*most, 3);
    last = values;
  }
}

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
