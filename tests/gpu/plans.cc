// The plans of a GPU against double: every pass of convolution and dense layers, in every type, by
// each of its libraries, on odd shapes and with outputs that begin as NaN.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "src/base/random.h"
#include "src/device/cuda/device.h"
#include "src/device/cuda/layers.h"
#include "tests/support/affine.h"
#include "tests/support/error_of.h"
#include "tests/support/tensor.h"

namespace lockstep::cuda {
namespace {

/// Fills `tensor` with the random values of `number`, and returns them.
Values filled(Tensor& tensor, std::uint32_t number) {
  Random random(11, Purpose::generate, 0, number);
  tensor.fill(random, 1);
  return tensor.values();
}

/// A tensor ends with a page, so a multiple of 256 bytes begins at one too, as plans demand.
Tensor workspace_of(Device& device, std::size_t bytes) {
  return {device, {static_cast<std::int64_t>(round_up(bytes + 1, 256) / 4)}, Type::f32};
}

/// The result of `c` in double. `sizes` contains the sum of the absolute products of each value,
/// the measure for its rounding error.
struct Reference {
  Values result, sizes;
};

Reference reference(const Convolution& c, const Values& x, const Values& w, const Values& b,
                    const Values& y) {
  Values sum[] = {Values(c.x.count()), Values(c.w.count()), Values(c.y.count())}, size[3];
  for (int i = 0; i < 3; ++i) size[i].resize(sum[i].size());
  for_products(c, [&](std::int64_t xi, std::int64_t wi, std::int64_t yi) {
    const double products[] = {w[wi] * y[yi], x[xi] * y[yi], x[xi] * w[wi]};
    const std::int64_t places[] = {xi, wi, yi};
    for (int i = 0; i < 3; ++i) {
      sum[i][places[i]] += products[i];
      size[i][places[i]] += std::abs(products[i]);
    }
  });
  const int which = c.pass == Pass::forward ? 2 : c.pass == Pass::backward_data ? 0 : 1;
  Reference result{sum[which], size[which]};
  for (std::size_t i = 0; c.bias && i < result.result.size(); ++i) {
    result.result[i] += b[i % b.size()];
    result.sizes[i] += std::abs(b[i % b.size()]);
  }
  for (double& value : result.result) {
    if (c.relu) value = std::max(value, 0.0);
  }
  return result;
}

/// The relative error of a value: a few roundings of the type, and of sums in fp32. Engines that
/// transform their inputs (Winograd, FFT) round more often; cuDNN's names do not tell them apart.
double tolerance(Type type, bool tf32) {
  return type == Type::bf16 ? 1.0 / 128 : tf32 ? 1.0 / 512 : 1e-4;
}

/// The largest error in relation to `sizes`. NaN is the worst, and stays.
double worst_error(const Values& found, const Values& wanted, const Values& sizes) {
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double error = std::abs(found[i] - wanted[i]) / std::max(sizes[i], 1e-3);
    worst = error <= worst ? worst : error;
  }
  return worst;
}

void check(Device& device, const Libraries& libraries, Convolution work, bool tf32) {
  const Type type = work.type;
  Tensor x(device, work.x, type), w(device, work.w, type), b(device, {work.w[0]}, type),
      y(device, work.y, type);
  const std::unique_ptr<Stream> stream = device.stream();
  for (const Pass pass : {Pass::forward, Pass::backward_data, Pass::backward_weights}) {
    work.pass = pass;
    if (pass != Pass::forward) work.bias = work.relu = false;
    SCOPED_TRACE(work.text());
    const Values xs = filled(x, 1), ws = filled(w, 2), bs = filled(b, 3), ys = filled(y, 4);
    const Reference wanted = reference(work, xs, ws, bs, ys);
    Tensor& result = pass == Pass::forward ? y : pass == Pass::backward_data ? x : w;
    int plans = 0;
    for (const Library* library : libraries) {
      const auto plan = library->plan(work);
      if (plan == nullptr) continue;
      SCOPED_TRACE(plan->name());
      const Tensor workspace = workspace_of(device, plan->workspace_bytes());
      result.poison();
      plan->run(*stream, {x.view.data, w.view.data, b.view.data, y.view.data}, workspace.view.data);
      stream->synchronize();
      EXPECT_LT(worst_error(result.values(), wanted.result, wanted.sizes), tolerance(type, tf32));
      ++plans;
    }
    EXPECT_GT(plans, 0);
  }
}

Convolution convolution(Shape x, Shape w, std::int64_t stride, std::int64_t pad,
                        std::int64_t dilation) {
  const auto extent = [&](int axis) {
    return (x[axis] + 2 * pad - (w[axis] - 1) * dilation - 1) / stride + 1;
  };
  Convolution work;
  work.x = x;
  work.w = w;
  work.y = {x[0], extent(1), extent(2), w[0]};
  work.stride = {stride, stride};
  work.pad = {pad, pad};
  work.dilation = {dilation, dilation};
  work.bias = work.relu = true;
  return work;
}

/// Attention's products: the libraries compute all pairs at a time.
TEST(Plans, ProductsMatchTheRowWiseKernel) {
  const auto device = make_cuda_device({});
  const auto stream = device->stream();
  constexpr std::int64_t kCount = 6;
  for (const Type type : {Type::f32, Type::bf16}) {
    for (const Type result : {type, Type::f32}) {
      for (const int transposed : {0, 1, 2}) {
        for (const auto& [rows, columns, inner] :
             {std::array{200, 200, 64}, {200, 64, 200}, {13, 7, 5}}) {
          const ProductSpec spec{.type = type,
                                 .result = result,
                                 .count = kCount,
                                 .rows = rows,
                                 .columns = columns,
                                 .inner = inner,
                                 .transposed_a = transposed == 1,
                                 .transposed_b = transposed == 2};
          Tensor a(*device, {kCount * rows * inner}, type),
              b(*device, {kCount * inner * columns}, type);
          filled(a, 1), filled(b, 2);
          const auto product_by = [&](ProductPlan& plan) {
            const Tensor c(*device, {kCount * rows * columns}, result),
                scratch = workspace_of(*device, plan.scratch_bytes());
            plan.run(*stream, a.view, b.view, c.view, scratch.view.data);
            stream->synchronize();
            return c.values();
          };
          const auto plan = device->product(spec);
          SCOPED_TRACE(testing::Message()
                       << name_of(type) << " " << name_of(result) << " " << transposed << " "
                       << rows << " by " << plan->implementation());
          const Values found = product_by(*plan), wanted = product_by(*make_row_product(spec));
          const Values sizes(found.size(), static_cast<double>(inner));
          EXPECT_LT(worst_error(found, wanted, sizes), tolerance(result, false));
        }
      }
    }
  }
}

TEST(Plans, MatchDouble) {
  const auto device = make_cuda_device({});
  for (const bool tf32 : {false, true}) {
    const auto cudnn = make_cudnn({.tf32 = tf32}), cublaslt = make_cublaslt({.tf32 = tf32});
    const Libraries libraries{cudnn.get(), cublaslt.get()};
    for (const Type type : {Type::f32, Type::bf16}) {
      if (type != Type::f32 && tf32) continue;
      for (Convolution work : {convolution({3, 9, 7, 3}, {64, 5, 5, 3}, 1, 2, 1),
                               convolution({2, 8, 8, 16}, {24, 3, 3, 16}, 1, 1, 1),
                               convolution({2, 11, 9, 8}, {16, 3, 3, 8}, 2, 1, 1),
                               convolution({2, 9, 9, 8}, {8, 3, 3, 8}, 1, 2, 2),
                               convolution({2, 9, 9, 16}, {16, 3, 3, 1}, 1, 1, 1),
                               convolution({2, 9, 9, 16}, {16, 7, 7, 1}, 2, 3, 1),
                               convolution({5, 1, 1, 33}, {10, 1, 1, 33}, 1, 0, 1),
                               convolution({128, 1, 1, 192}, {10, 1, 1, 192}, 1, 0, 1),
                               convolution({16, 1, 1, 256}, {64, 1, 1, 256}, 1, 0, 1)}) {
        work.type = type;
        if (work.dense()) work.relu = false;  // a kernel of its own
        check(*device, libraries, work, tf32);
      }
    }
  }
}

TEST(Plans, ADeterministicKernelIsBitwiseReproducible) {
  const auto device = make_cuda_device({});
  const auto cudnn = make_cudnn({.deterministic = true});
  const std::unique_ptr<Stream> stream = device->stream();
  for (const Type type : {Type::f32, Type::bf16}) {
    Convolution work = convolution({64, 12, 12, 64}, {64, 5, 5, 64}, 1, 2, 1);
    work.type = type;
    work.pass = Pass::backward_weights;
    work.bias = work.relu = false;
    Tensor x(*device, work.x, type), w(*device, work.w, type), y(*device, work.y, type);
    filled(x, 1), filled(y, 2);
    const auto plan = cudnn->plan(work);
    SCOPED_TRACE(plan->name());
    const Tensor workspace = workspace_of(*device, plan->workspace_bytes());
    Values first;
    for (int run = 0; run < 5; ++run) {
      w.poison();
      plan->run(*stream, {x.view.data, w.view.data, nullptr, y.view.data}, workspace.view.data);
      stream->synchronize();
      if (run == 0) first = w.values();
      EXPECT_EQ(w.values(), first);
    }
  }
}

}  // namespace
}  // namespace lockstep::cuda
