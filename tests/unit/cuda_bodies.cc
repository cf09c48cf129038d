// The GPU's own kernels, run by the CPU, against the CPU's plans. Other tests compare those with
// double.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "net/layers/exponential.h"
#include "src/base/random.h"
#include "src/device/cuda/layers.h"
#include "src/device/cuda/rows.h"

namespace lockstep::cuda {
namespace {

/// Memory of the CPU with random numbers, or with NaN.
struct Tensor {
  Tensor(Shape shape, Type type) : memory(size_of(type) * shape.count(), std::byte{0xff}) {
    view = {memory.data(), shape, type};
  }
  static Tensor random(Shape shape, Type type, std::uint32_t number) {
    Tensor result(shape, type);
    Random random(5, Purpose::generate, 0, number);
    dispatch(type, [&](auto* tag) {
      using T = std::remove_pointer_t<decltype(tag)>;
      // Few different values, so that a window contains equal ones.
      for (std::int64_t i = 0; i < shape.count(); ++i)
        result.view.as<T>()[i] = static_cast<float>(random.below(41)) / 16 - 1.25f;
    });
    return result;
  }
  std::vector<float> values() const {
    std::vector<float> result;
    dispatch(view.type, [&](auto* tag) {
      using T = std::remove_pointer_t<decltype(tag)>;
      result.assign(view.as<T>(), view.as<T>() + view.count());
    });
    return result;
  }

  std::vector<std::byte> memory;
  View view;
};

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    norm += double{b[i]} * b[i];
  }
  return std::sqrt(difference / norm);
}

/// On one thread and on several.
template <class F>
void on_streams(F f) {
  for (const int threads : {1, 3}) {
    SCOPED_TRACE(threads);
    HostStream stream(threads);
    f(stream);
  }
}

TEST(CudaBodies, ResponseNormMatchesTheCpu) {
  const auto device = make_cpu_device(1);
  for (const Type type : {Type::f32, Type::bf16}) {
    for (const ResponseNormSpec& spec : {ResponseNormSpec{{{2, 5, 3, 64}, type}, 4, 1, 0.1f, 0.75f},
                                         ResponseNormSpec{{{1, 3, 3, 5}, type}, 1, 2, 0.5f, 0.5f},
                                         ResponseNormSpec{{{3, 1, 2, 7}, type}, 9, 1, 0.2f, 0.75f},
                                         ResponseNormSpec{{{1, 2, 2, 3}, type}, 0, 1, 1, 0.6f}}) {
      SCOPED_TRACE(spec.input.x.text());
      const Shape shape = spec.input.x;
      const Tensor x = Tensor::random(shape, type, 1), dy = Tensor::random(shape, type, 2);
      HostStream one(1);
      const auto cpu = device->response_norm(spec);
      Tensor y(shape, type), dx(shape, type);
      cpu->forward(one, x.view, y.view);
      cpu->backward(one, x.view, dy.view, dx.view, nullptr);
      on_streams([&](Stream& stream) {
        const double tolerance = type == Type::f32 ? 1e-6 : 3e-3;
        const auto plan = make_response_norm(spec);
        Tensor own_y(shape, type), own_dx(shape, type);
        std::vector<std::byte> scratch(plan->scratch_bytes(), std::byte{0xff});
        plan->forward(stream, x.view, own_y.view);
        plan->backward(stream, x.view, dy.view, own_dx.view, scratch.data());
        EXPECT_LT(distance(own_y.values(), y.values()), tolerance);
        EXPECT_LT(distance(own_dx.values(), dx.values()), tolerance);
      });
    }
  }
}

TEST(CudaBodies, ProductsMatchTheCpu) {
  const auto device = make_cpu_device(1);
  for (const Type type : {Type::f32, Type::bf16}) {
    for (const int transposed : {0, 1, 2, 3}) {
      const ProductSpec spec{.type = type,
                             .count = 2,
                             .rows = 5,
                             .columns = 33,
                             .inner = 7,
                             .transposed_a = transposed % 2 == 1,
                             .transposed_b = transposed > 1};
      const Tensor a = Tensor::random({2, 5, 7}, type, 1), b = Tensor::random({2, 7, 33}, type, 2);
      Tensor c({2, 5, 33}, Type::f32);
      const auto cpu = device->product(spec);
      std::vector<std::byte> scratch(cpu->scratch_bytes());
      HostStream one(1);
      cpu->run(one, a.view, b.view, c.view, scratch.data());
      on_streams([&](Stream& stream) {
        Tensor own({2, 5, 33}, Type::f32);
        make_row_product(spec)->run(stream, a.view, b.view, own.view, nullptr);
        EXPECT_LT(distance(own.values(), c.values()), 1e-6) << transposed;
      });
    }
  }
}

TEST(CudaBodies, RowsAreSummedAndGetTheirBias) {
  for (const Type type : {Type::f32, Type::bf16, Type::f16}) {
    for (const auto& [count, columns] :
         {std::pair{1, 3}, {7, 1}, {31, 40}, {64, 33}, {1000, 10}, {70000, 2}}) {
      SCOPED_TRACE(std::to_string(count) + " rows of " + std::to_string(columns));
      const Tensor rows = Tensor::random({count, columns}, type, 1);
      const std::vector<float> values = rows.values();
      const Tensor bias = Tensor::random({columns}, Type::f32, 2);
      std::vector<float> expected(columns), biased(values.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        expected[i % columns] += values[i];  // sixteenths: every order has the same sum
        biased[i] = std::max(values[i] + bias.values()[i % columns], 0.0f);
        if (type == Type::bf16) biased[i] = Bfloat16(biased[i]);
        if (type == Type::f16) biased[i] = Half(biased[i]);
      }
      on_streams([&](Stream& stream) {
        Tensor sums({columns}, Type::f32), y = rows;
        y.view.data = y.memory.data();
        std::vector<std::byte> scratch(sum_rows_bytes(count, columns), std::byte{0xff});
        sum_rows(stream, rows.view, sums.view, scratch.data());
        EXPECT_EQ(sums.values(), expected);
        add_bias(stream, y.view, bias.view, true);
        EXPECT_EQ(y.values(), biased);
      });
    }
  }
}

TEST(CudaBodies, ValuesAreRoundedOnceAndWidenedExactly) {
  const Tensor wide = Tensor::random({3, 77}, Type::f32, 1);
  for (const Type type : {Type::bf16, Type::f16}) {
    Tensor narrow({3, 77}, type), back({3, 77}, Type::f32);
    on_streams([&](Stream& stream) {
      convert(stream, wide.view, narrow.view);
      convert(stream, narrow.view, back.view);
      for (int i = 0; i < 3 * 77; ++i) {
        const float value = wide.values()[i];
        EXPECT_EQ(back.values()[i],
                  type == Type::bf16 ? float{Bfloat16(value)} : float{Half(value)});
      }
    });
  }
}

TEST(CudaBodies, ExponentialsKeepAGpusNan) {
  EXPECT_TRUE(std::isnan(exp_of_negative(std::bit_cast<float>(0x7fffffffu))));
}

}  // namespace
}  // namespace lockstep::cuda
