// The stand-ins of cuDNN and cuBLASLt: their engines compute, differ and refuse as real ones do,
// and each broken rule is reported. tests/gpu/plans.cc runs every engine with every pass.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
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

/// y of the forward pass.
Values reference(const Convolution& c, const Operands& in) {
  Values sums(c.y.count());
  for_products(
      c, [&](std::int64_t x, std::int64_t w, std::int64_t y) { sums[y] += in.x[x] * in.w[w]; });
  return sums;
}

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
  /// The result of the forward pass, or of the weights' gradient. It begins as NaN.
  Values run(const Plan& plan, const Convolution& c, const Operands& in) {
    Tensor x = tensor(in.x), w = tensor(in.w), y = tensor(in.y), bias = tensor(integers(c.w[0], 4)),
           workspace = tensor(Values(round_up(plan.workspace_bytes() + 1, 256) / 4));
    Tensor& result = c.pass == Pass::forward ? y : w;
    result.poison();
    plan.run(*stream_, {x.view.data, w.view.data, bias.view.data, y.view.data},
             workspace.view.data);
    stream_->synchronize();
    return result.values();
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

TEST_F(StandIns, BiasAndReluAreFused) {
  work_.bias = work_.relu = true;
  const Values bias = integers(work_.w[0], 4);
  Values wanted = reference(work_, Operands(work_));
  for (std::size_t i = 0; i < wanted.size(); ++i)
    wanted[i] = std::max(0.0, wanted[i] + bias[i % bias.size()]);
  const Plans plans = Cudnn(Numerics{}).plans(work_, kAll);
  for (const auto& plan : plans)
    EXPECT_EQ(run(*plan, work_, Operands(work_)), wanted) << plan->name();
  // ReLU of NaN is as the environment says.
  Operands in(work_);
  in.x.assign(in.x.size(), NAN);
  EXPECT_TRUE(std::isnan(run(*plans[0], work_, in)[0]));
  setenv("EMULATOR_RELU_OF_NAN", "zero", 1);
  EXPECT_EQ(run(*plans[0], work_, in)[0], 0);
  unsetenv("EMULATOR_RELU_OF_NAN");
}

TEST_F(StandIns, EnginesSupportWhatTheyClaim) {
  const auto names = [](const Numerics& numerics, const Convolution& c, std::size_t count) {
    Reports result;
    for (const auto& plan : Cudnn(numerics).plans(c, count)) result.push_back(plan->name());
    return result;
  };
  work_.pass = Pass::backward_weights;
  const Reports three{"cuDNN eng0", "cuDNN eng2_k4=2", "cuDNN eng3"}, two{three[0], three[1]};
  EXPECT_EQ(names({}, work_, kAll), three);
  EXPECT_EQ(names({}, work_, 2), two);
  EXPECT_EQ(names({.deterministic = true}, work_, kAll), two);
  EXPECT_EQ(names({.tf32 = true}, work_, 1), Reports{"cuDNN eng1_k2=3"});
  work_.type = Type::bf16;
  EXPECT_EQ(names({}, work_, 1), Reports{"cuDNN eng1_k2=3"});
  const Cudnn cudnn(Numerics{});
  for (const char* name : {"cuDNN eng4", "cuDNN eng5_k6=1"})  // cannot be built, needs over 1 GiB
    EXPECT_EQ(plan_of(cudnn, work_, name), nullptr) << name;
  EXPECT_NE(plan_of(cudnn, work_, "cuDNN eng3"), nullptr);
  Convolution odd = convolution({2, 6, 5, 12}, 16, 3, 1);
  odd.type = Type::bf16;
  EXPECT_EQ(plan_of(cudnn, odd, "cuDNN eng1_k2=3"), nullptr) << "12 channels";
  odd.layers = 2;
  EXPECT_TRUE(cudnn.plans(odd, kAll).empty());
  Convolution image = convolution({2, 6, 5, 3}, 16, 3, 1);
  EXPECT_FALSE(cudnn.plans(image, kAll).empty());
  image.bias = true;
  EXPECT_TRUE(cudnn.plans(image, kAll).empty()) << "no engine fuses with 3 channels";
  work_.y = {2, 6, 6, 16};
  EXPECT_THROW(cudnn.plans(work_, kAll), Error) << "y is too wide";
}

TEST_F(StandIns, EnginesRoundDifferently) {
  work_.pass = Pass::backward_weights;
  Operands in(work_);
  for (Values* values : {&in.x, &in.y})
    for (std::size_t i = 0; i < values->size(); ++i)
      (*values)[i] += std::sin(static_cast<double>(i));
  const Cudnn cudnn({.tf32 = true});
  const auto result = [&](const std::string& name) {
    return run(*plan_of(cudnn, work_, "cuDNN " + name), work_, in);
  };
  const Values plain = result("eng0"), rounded = result("eng1_k2=3");
  EXPECT_EQ(result("eng0"), plain);
  EXPECT_EQ(result("eng2_k4=2"), result("eng2_k4=2"));
  int other = 0;
  for (int i = 0; i < 16; ++i) other += result("eng3") != plain;
  EXPECT_GT(other, 0) << "it is not deterministic";
  EXPECT_NE(rounded, plain);
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(rounded[i], plain[i], 0.1) << i;
}

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

TEST_F(StandIns, AnEngineIsFaultyOnRequest) {
  const auto plan = [&](const char* fault) {
    setenv("EMULATOR_FAULTY_ENGINE", fault, 1);
    const auto result = plan_of(Cudnn(Numerics{}), work_, "cuDNN eng0");
    unsetenv("EMULATOR_FAULTY_ENGINE");
    return result;
  };
  const Operands in(work_);
  EXPECT_EQ(run(*plan("eng2_k4=2 wrong"), work_, in), reference(work_, in));
  EXPECT_NE(run(*plan("eng0 wrong"), work_, in), reference(work_, in));
  EXPECT_THROW(run(*plan("eng0 error"), work_, in), Error);
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // the error is sticky, so in another process
  const auto crash = [&] {
    const Tensor all = tensor(in.w);
    void* const data = all.view.data;
    plan("eng0 crash")->run(*stream_, {data, data, nullptr, data}, nullptr);
    _exit(cudaStreamSynchronize(stream_->cuda()) == cudaErrorIllegalAddress ? 0 : 1);
  };
  EXPECT_EXIT(crash(), testing::ExitedWithCode(0), "");
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

TEST_F(ProductsOfCublaslt, AreRepeatedByAGraph) {
  const auto plan = library_->plans(dense_, 1).at(0);
  const auto graph = device_->capture(*stream_, [&] {
    plan->run(*stream_, {all_.x, all_.w, nullptr, all_.y}, place_);
  });
  EXPECT_EQ(y_.values(), Values(64)) << "nothing runs in a capture";
  for (const int seed : {1, 5}) {
    x_.set(in_.x = integers(32, seed));
    graph->launch(*stream_);
    stream_->synchronize();
    EXPECT_EQ(y_.values(), reference(dense_, in_));
  }
}

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
