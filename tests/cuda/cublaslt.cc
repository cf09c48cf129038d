// Products and dense layers by cuBLASLt, on a double of the library that computes on the CPU
// (tests/cuda/double/cublaslt.cc): layouts, transposes, batches, biases and alignments.

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "src/base/random.h"
#include "src/device/cuda/layers.h"
#include "tests/support/tensor.h"

extern "C" int cublaslt_double_products();

namespace lockstep::cuda {
namespace {

/// Memory of the host, aligned as that of a GPU, with random values that bf16 represents exactly.
Tensor tensor(Shape shape, Type type, std::uint32_t number) {
  static const std::unique_ptr<Device> cpu = make_cpu_device(1);
  Tensor tensor(*cpu, shape, type);
  Random random(3, Purpose::generate, 0, number);
  Values values(shape.count());
  for (double& value : values) value = random.below(65) / 32.0 - 1;
  tensor.set(values);
  return tensor;
}

void expect_near(const Values& is, const Values& wanted, double tolerance) {
  ASSERT_EQ(is.size(), wanted.size());
  for (std::size_t i = 0; i < is.size(); ++i) ASSERT_NEAR(is[i], wanted[i], tolerance) << i;
}

Tensor scratch_of(std::size_t bytes) {
  return tensor({static_cast<std::int64_t>(bytes / 4 + 1)}, Type::f32, 9);
}

class CublasltDouble : public testing::Test {
 protected:
  void TearDown() override { EXPECT_GT(cublaslt_double_products(), before_); }

  const int before_ = cublaslt_double_products();
  const std::unique_ptr<Library> library_ = make_cublaslt({});
  Planner planner_{{library_.get()}};
  HostStream stream_;
};

TEST_F(CublasltDouble, MultipliesPairsOfMatrices) {
  for (const Type type : {Type::f32, Type::bf16}) {
    for (const Type result : {Type::f32, type}) {
      for (const auto& [count, rows, columns, inner] :
           {std::array{6, 16, 8, 24}, {5, 13, 7, 3}, {1, 9, 8, 5}}) {
        for (const int transposed : {0, 1, 2}) {
          SCOPED_TRACE(testing::Message() << name_of(type) << " to " << name_of(result) << ", "
                                          << rows << " rows, transposed " << transposed);
          const ProductSpec spec{.type = type,
                                 .result = result,
                                 .count = count,
                                 .rows = rows,
                                 .columns = columns,
                                 .inner = inner,
                                 .transposed_a = transposed == 1,
                                 .transposed_b = transposed == 2};
          const Shape product{count, rows, columns};
          const Tensor a = tensor({count, rows, inner}, type, 1),
                       b = tensor({count, inner, columns}, type, 2),
                       own = tensor(product, result, 3), wanted = tensor(product, result, 4);
          const auto plan = make_product(planner_, spec);
          EXPECT_EQ(plan->implementation().substr(0, 8), "cuBLASLt");
          const Tensor scratch = scratch_of(plan->scratch_bytes());
          plan->run(stream_, a.view, b.view, own.view, scratch.view.data);
          make_row_product(spec)->run(stream_, a.view, b.view, wanted.view, nullptr);
          expect_near(own.values(), wanted.values(), 1e-5);
        }
      }
    }
  }
}

TEST_F(CublasltDouble, ComputesDenseLayersOfAnyKind) {
  const auto cpu = make_cpu_device(1);
  for (const bool relu : {false, true}) {
    for (const bool biases : {false, true}) {
      for (const std::int64_t layers : {1, 3}) {
        if (biases && layers > 1) continue;
        SCOPED_TRACE(testing::Message() << relu << biases << layers);
        const DenseSpec spec{.input = {{layers * 5, 8}, Type::f32},
                             .features = 7,
                             .relu = relu,
                             .biases = biases,
                             .layers = layers};
        const Shape x_shape{layers * 5, 8}, w_shape{layers * 7, 8}, y_shape{layers * 5, 7};
        const auto fp32 = [](Shape shape, std::uint32_t number) {
          return tensor(shape, Type::f32, number);
        };
        const Tensor x = fp32(x_shape, 1), w = fp32(w_shape, 2), b = fp32({7}, 3),
                     dy = fp32(y_shape, 4);
        const auto results = [&](AffinePlan& plan) {
          const Tensor y = fp32(y_shape, 5), dx = fp32(x_shape, 6), dw = fp32(w_shape, 7),
                       db = fp32({7}, 8);
          const Tensor scratch = scratch_of(plan.scratch_bytes());
          void* const at = scratch.view.data;
          plan.forward(stream_, x.view, w.view, biases ? b.view : View(), y.view, at);
          plan.backward_data(stream_, dy.view, w.view, dx.view, at);
          plan.backward_weights(stream_, x.view, dy.view, dw.view, biases ? db.view : View(), at);
          Values all;
          for (const Tensor* tensor : {&y, &dx, &dw, &db}) {
            if (tensor == &db && !biases) continue;
            const Values own = tensor->values();
            all.insert(all.end(), own.begin(), own.end());
          }
          return all;
        };
        expect_near(results(*make_dense(planner_, spec)), results(*cpu->dense(spec)), 1e-5);
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::cuda
