// The GPU's own kernels, run by the CPU, against the CPU's plans, which other tests compare with
// double; also in memory of the double of a device.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "net/exponential.h"
#include "src/base/random.h"
#include "src/device/cuda/layers.h"
#include "src/device/cuda/rows.h"
#include "tests/support/async_device.h"
#include "tests/support/tensor.h"

namespace lockstep::cuda {
namespace {

/// Few different values, so that a window contains equal ones.
Tensor random_tensor(Device& device, Shape shape, Type type, std::uint32_t number) {
  Tensor tensor(device, shape, type);
  Random random(5, Purpose::generate, 0, number);
  Values values(shape.count());
  for (double& value : values) value = random.below(41) / 16.0 - 1.25;
  tensor.set(values);
  return tensor;
}

double rounded(double value, Type type) {
  const auto wide = static_cast<float>(value);
  return type == Type::bf16 ? float{Bfloat16(wide)} : wide;
}

/// Calls f(device, stream) with one thread, with several, and with the double of a device, which
/// finds pointers to other memory and beyond the end.
template <class F>
void on_devices(F f) {
  for (const auto& device : {make_cpu_device(1), make_cpu_device(3), make_async_device()}) {
    SCOPED_TRACE(device->traits().description);
    const auto stream = device->stream();
    f(*device, *stream);
  }
}

class CudaBodies : public testing::TestWithParam<Type> {};

TEST_P(CudaBodies, ResponseNormMatchesTheCpu) {
  const Type type = GetParam();
  const auto cpu = make_cpu_device(1);
  for (const ResponseNormSpec& spec : {ResponseNormSpec{{{2, 5, 3, 64}, type}, 4, 1, 0.1f, 0.75f},
                                       ResponseNormSpec{{{1, 3, 3, 5}, type}, 1, 2, 0.5f, 0.5f},
                                       ResponseNormSpec{{{3, 1, 2, 7}, type}, 9, 1, 0.2f, 0.75f},
                                       ResponseNormSpec{{{1, 2, 2, 3}, type}, 0, 1, 1, 0.6f}}) {
    SCOPED_TRACE(spec.input.x.text());
    const auto run = [&](Device& device, Stream& stream, ResponseNormPlan& plan, Type of) {
      const Shape shape = spec.input.x;
      const Tensor x = random_tensor(device, shape, of, 1),
                   dy = random_tensor(device, shape, of, 2);
      Tensor y(device, shape, of), dx(device, shape, of),
          scratch(device, {static_cast<std::int64_t>(plan.scratch_bytes() / 4)}, Type::f32);
      plan.forward(stream, x.view, y.view);
      plan.backward(stream, x.view, dy.view, dx.view, scratch.view.data);
      stream.synchronize();
      scratch.values();
      return std::pair(y.values(), dx.values());
    };
    ResponseNormSpec wide = spec;
    wide.input.type = Type::f32;
    const auto [y, dx] = run(*cpu, *cpu->stream(), *cpu->response_norm(wide), Type::f32);
    on_devices([&, &y = y, &dx = dx](Device& device, Stream& stream) {
      const double tolerance = type == Type::f32 ? 1e-6 : 3e-3;
      const auto [own_y, own_dx] = run(device, stream, *make_response_norm(spec), type);
      EXPECT_LT(relative_error(own_y, y), tolerance);
      EXPECT_LT(relative_error(own_dx, dx), tolerance);
    });
  }
}

TEST_P(CudaBodies, ProductsMatchTheCpu) {
  const Type type = GetParam();
  const auto cpu = make_cpu_device(1);
  for (const int transposed : {0, 1, 2, 3}) {
    const ProductSpec spec{.type = type,
                           .count = 2,
                           .rows = 5,
                           .columns = 33,
                           .inner = 7,
                           .transposed_a = transposed % 2 == 1,
                           .transposed_b = transposed > 1};
    const auto run = [&](Device& device, Stream& stream, ProductPlan& plan, Type of) {
      const Tensor a = random_tensor(device, {2, 5, 7}, of, 1),
                   b = random_tensor(device, {2, 7, 33}, of, 2), c(device, {2, 5, 33}, Type::f32);
      const Memory scratch = device.allocate(plan.scratch_bytes(), Place::device);
      plan.run(stream, a.view, b.view, c.view, scratch.get());
      stream.synchronize();
      return c.values();
    };
    ProductSpec wide = spec;
    wide.type = Type::f32;
    const Values wanted = run(*cpu, *cpu->stream(), *cpu->product(wide), Type::f32);
    on_devices([&](Device& device, Stream& stream) {
      const Values own = run(device, stream, *make_row_product(spec), type);
      EXPECT_LT(relative_error(own, wanted), 1e-6) << transposed;
    });
  }
}

TEST_P(CudaBodies, RowsAreSummedAndGetTheirBias) {
  const Type type = GetParam();
  for (const auto& [count, columns] :
       {std::pair{1, 3}, {7, 1}, {31, 40}, {64, 33}, {1000, 10}, {70000, 2}}) {
    SCOPED_TRACE(std::to_string(count) + " rows of " + std::to_string(columns));
    const Shape shape{count, columns}, vector{columns};
    on_devices([&](Device& device, Stream& stream) {
      const Tensor rows = random_tensor(device, shape, type, 1),
                   bias = random_tensor(device, vector, Type::f32, 2),
                   sums(device, vector, Type::f32),
                   scratch(device,
                           {static_cast<std::int64_t>(sum_rows_bytes(shape[0], shape[1]) /
                                                      sizeof(float))},
                           Type::f32);
      const Values values = rows.values(), biases = bias.values();
      Values expected(vector[0]), biased(values.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        expected[i % vector[0]] += values[i];  // sixteenths: every order has the same sum
        biased[i] = rounded(std::max(values[i] + biases[i % vector[0]], 0.0), type);
      }
      sum_rows(stream, rows.view, sums.view, scratch.view.data);
      add_bias(stream, rows.view, bias.view, true);
      stream.synchronize();
      scratch.values();
      EXPECT_EQ(sums.values(), expected);
      EXPECT_EQ(rows.values(), biased);
    });
  }
}

TEST_P(CudaBodies, ValuesAreRoundedOnceAndWidenedExactly) {
  on_devices([&](Device& device, Stream& stream) {
    const Tensor wide = random_tensor(device, {3, 77}, Type::f32, 1),
                 narrow(device, {3, 77}, GetParam()), back(device, {3, 77}, Type::f32);
    convert(stream, wide.view, narrow.view);
    convert(stream, narrow.view, back.view);
    stream.synchronize();
    Values expected = wide.values();
    for (double& value : expected) value = rounded(value, GetParam());
    EXPECT_EQ(back.values(), expected);
  });
}

INSTANTIATE_TEST_SUITE_P(Types, CudaBodies, testing::Values(Type::f32, Type::bf16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(CudaExponential, KeepsAGpusNan) {
  EXPECT_TRUE(std::isnan(exp_of_negative(std::bit_cast<float>(0x7fffffffu))));
}

}  // namespace
}  // namespace lockstep::cuda
