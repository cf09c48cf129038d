// The stand-ins of cuDNN and cuBLASLt report each broken rule. tests/gpu/plans.cc runs every engine
// with every pass.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "src/device/cuda/cudnn.h"
#include "src/device/cuda/device.h"
#include "tests/emulator/emulator.h"
#include "tests/support/affine.h"

namespace lockstep::cuda {
namespace {

using Reports = std::vector<std::string>;

constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

Convolution convolution(const Shape& x, std::int64_t filters, std::int64_t kernel,
                        std::int64_t pad = 0) {
  return convolution_of({.input = {x}, .filters = filters, .kernel = kernel, .pad = pad});
}

/// -1, 0 and 1.
Values integers(std::int64_t count, std::int64_t seed) {
  Values values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<double>((i * 7 + seed * 5 + i / 11) % 3) - 1);
  return values;
}

struct Operands {
  explicit Operands(const Convolution& c)
      : x(integers(c.x.count(), 1)), w(integers(c.w.count(), 2)), y(integers(c.y.count(), 3)) {}
  Values x, w, y;
};

/// The plan of `cudnn` with that name; null: not offered.
std::shared_ptr<const Plan> plan_of(const Cudnn& cudnn, const Convolution& work,
                                    const std::string& name) {
  for (const auto& plan : cudnn.plans(work, kAll))
    if (plan->name() == name) return plan;
  return nullptr;
}

class StandIns : public testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(emulator::take_reports(), Reports()); }

  Tensor tensor(const Values& values) {
    Tensor tensor(*device_, {std::ssize(values)}, Type::f32);
    tensor.set(values);
    return tensor;
  }
  /// The call throws, and reports this.
  void expect_refused(const Plan& plan, const Tensors& tensors, void* workspace,
                      const std::string& report) {
    EXPECT_THROW(plan.run(*stream_, tensors, workspace), Error) << report;
    EXPECT_EQ(emulator::take_reports(), Reports{report});
  }
  static void* after(const Tensor& tensor, int bytes) {
    return static_cast<std::byte*>(tensor.view.data) + bytes;
  }

  std::unique_ptr<Device> device_ = make_cuda_device({.threads = 1});
  std::unique_ptr<Stream> stream_ = device_->stream();
  Convolution work_ = convolution({2, 6, 5, 8}, 16, 3, 1);
};

TEST_F(StandIns, BrokenRulesOfCudnnAreReported) {
  const Operands in(work_);
  const Tensor x = tensor(in.x), w = tensor(in.w), y = tensor(in.y),
               workspace = tensor(Values(2048)), small = tensor(Values(64));
  const Tensors all{x.view.data, w.view.data, nullptr, y.view.data};
  const auto plan = plan_of(Cudnn(Numerics{}), work_, "cuDNN eng2_k4=2");
  expect_refused(*plan, {all.x, nullptr, nullptr, all.y}, workspace.view.data,
                 "cuDNN: a tensor is null");
  expect_refused(*plan, {after(x, 8), all.w, nullptr, all.y}, workspace.view.data,
                 "cuDNN: a tensor is not aligned to 16 bytes");
  expect_refused(*plan, all, nullptr, "cuDNN: the workspace is null");
  expect_refused(*plan, all, after(workspace, 16),
                 "cuDNN: the workspace is not aligned to 256 bytes");
  plan->run(*stream_, {all.x, all.x, nullptr, all.y}, workspace.view.data);
  stream_->synchronize();
  EXPECT_EQ(emulator::take_reports().size(), 1u) << "x is smaller than the filters";
  EXPECT_THROW(Cudnn(Numerics{}, "{}").plans(work_, 1)[0]->run(*stream_, {}, nullptr), Error);
  work_.pass = Pass::backward_weights;
  const auto greedy = plan_of(Cudnn(Numerics{}), work_, "cuDNN eng3");
  ASSERT_EQ(greedy->workspace_bytes(), 300u);
  const Tensor filled = tensor(Values(1024));
  greedy->run(*stream_, all, filled.view.data);
  stream_->synchronize();
  const Values values = filled.values();
  for (int i = 0; i < 1024; ++i) EXPECT_EQ(std::isnan(values[i]), i < 75) << i;
  greedy->run(*stream_, all, small.view.data);
  stream_->synchronize();
  EXPECT_EQ(emulator::take_reports().size(), 1u) << "it has 256 bytes";
}

/// y = x * w^T by cuBLASLt, 4 x 8 times 16 x 8.
class ProductsOfCublaslt : public StandIns {
 protected:
  Convolution dense_ = convolution({4, 1, 1, 8}, 16, 1);
  std::unique_ptr<Library> library_ = make_cublaslt({});
  Operands in_{dense_};
  Tensor x_ = tensor(in_.x), w_ = tensor(in_.w), y_ = tensor(Values(64)),
         workspace_ = tensor(Values(1024));
  void* const place_ = workspace_.view.data;
  const Tensors all_{x_.view.data, w_.view.data, w_.view.data, y_.view.data};
};

TEST_F(ProductsOfCublaslt, ReportBrokenRules) {
  dense_.bias = true;
  const auto plan = library_->plans(dense_, 1).at(0);
  const auto expect = [&](const Tensors& tensors, void* place, const std::string& report) {
    expect_refused(*plan, tensors, place, "cublasLtMatmul: " + report);
  };
  expect({nullptr, all_.w, all_.w, all_.y}, place_, "a matrix is null");
  expect({all_.x, all_.w, nullptr, all_.y}, place_, "the bias is null");
  expect({all_.x, after(w_, 8), all_.w, all_.y}, place_, "a matrix is not aligned as promised");
  expect(all_, nullptr, "the workspace is too small");
  expect(all_, after(workspace_, 64), "the workspace is not aligned to 256 bytes");
  plan->run(*stream_, all_, all_.y);
  stream_->synchronize();
  EXPECT_EQ(emulator::take_reports().size(), 1u) << "the workspace is larger than y";
}

}  // namespace
}  // namespace lockstep::cuda
