// Affine layers of GPUs on a library of loops in double, against the CPU's plans. They test
// Lockstep's part: the choice of plans, conversions, sums of biases' gradients, layout of scratch,
// and that only memory of the device is used.
#include <gtest/gtest.h>

#include <cstring>

#include "net/layers.h"
#include "src/base/random.h"
#include "src/device/cuda/layers.h"
#include "tests/support/affine.h"
#include "tests/support/async_device.h"
#include "tests/support/error_of.h"
#include "tests/support/expect_error.h"
#include "tests/support/wrapped_device.h"

namespace lockstep::cuda {
namespace {

Values read(const void* data, Shape shape, Type type) {
  Values values;
  dispatch(type, [&](auto* tag) {
    const auto* from = static_cast<const std::remove_pointer_t<decltype(tag)>*>(data);
    for (std::int64_t i = 0; i < shape.count(); ++i) values.push_back(static_cast<float>(from[i]));
  });
  return values;
}

void write(const Values& values, void* data, Type type) {
  dispatch(type, [&](auto* tag) {
    auto* to = static_cast<std::remove_pointer_t<decltype(tag)>*>(data);
    for (const double value : values) *to++ = static_cast<float>(value);
  });
}

class LoopPlan : public Plan {
 public:
  LoopPlan(Convolution work, std::string name) : work_(std::move(work)), name_(std::move(name)) {}

  void run(Stream& stream, const Tensors& all, void* workspace) const override {
    for (std::int64_t layer = 0; layer < work_.layers; ++layer) {
      const auto at = [&](void* data, const Shape& shape, Pass writer) -> void* {
        const Type type = writer == work_.pass ? result() : work_.type;
        return static_cast<std::byte*>(data) + layer * shape.count() * size_of(type);
      };
      run_one(stream,
              {at(all.x, work_.x, Pass::backward_data), at(all.w, work_.w, Pass::backward_weights),
               all.b, at(all.y, work_.y, Pass::forward)},
              workspace);
    }
  }
  void run_one(Stream& stream, const Tensors& t, void* workspace) const {
    stream.enqueue([c = work_, result = result(), t, workspace] {
      std::memset(workspace, 0xff, kWorkspace);
      Values x(c.x.count()), w(c.w.count()), y(c.y.count());
      if (c.pass != Pass::backward_data) x = read(t.x, c.x, c.type);
      if (c.pass != Pass::backward_weights) w = read(t.w, c.w, c.type);
      if (c.pass != Pass::forward) y = read(t.y, c.y, c.type);
      for_products(c, [&](std::int64_t i, std::int64_t k, std::int64_t o) {
        if (c.pass == Pass::forward) y[o] += x[i] * w[k];
        if (c.pass == Pass::backward_data) x[i] += y[o] * w[k];
        if (c.pass == Pass::backward_weights) w[k] += y[o] * x[i];
      });
      if (c.bias) {
        const Values b = read(t.b, {c.w[0]}, c.type);
        for (std::size_t i = 0; i < y.size(); ++i) y[i] += b[i % b.size()];
      }
      if (c.relu) {
        for (double& value : y) value = value > 0 ? value : 0;  // as cuBLASLt's: NaN is lost
      }
      if (c.pass == Pass::forward) write(y, t.y, result);
      if (c.pass == Pass::backward_data) write(x, t.x, result);
      if (c.pass == Pass::backward_weights) write(w, t.w, result);
    });
  }
  std::size_t workspace_bytes() const override { return kWorkspace; }
  const std::string& name() const override { return name_; }

  static constexpr std::size_t kWorkspace = 768;  // of 256, so that scratch ends with a page

 private:
  Type result() const { return work_.fp32_result ? Type::f32 : work_.type; }

  Convolution work_;
  std::string name_;
};

/// Offers a plan for all work, or only for work without biases.
class LoopLibrary : public Library {
 public:
  explicit LoopLibrary(bool takes_biases = true, bool stacks = false, std::string name = "loop")
      : takes_biases_(takes_biases), stacks_(stacks), name_(std::move(name)) {}
  std::shared_ptr<const Plan> plan(const Convolution& work) const override {
    if ((work.bias && !takes_biases_) || (work.layers > 1 && !stacks_)) return nullptr;
    return std::make_shared<LoopPlan>(work, name_);
  }

 private:
  bool takes_biases_, stacks_;
  std::string name_;
};

/// Offers nothing.
class EmptyLibrary : public Library {
 public:
  std::shared_ptr<const Plan> plan(const Convolution&) const override { return nullptr; }
};

/// Runs our plan on the double of a device, which finds pointers to other memory and beyond the
/// end. Expects the results of the CPU's fp32 plan for the same inputs, which `type` represents
/// exactly.
void expect_the_cpus(AffinePlan& ours, AffinePlan& theirs, AffineCase inputs) {
  inputs.coarse = true;
  const AffineOutcome is = run_affine(*make_async_device(), ours, inputs);
  const double tolerance = inputs.type == Type::f32 ? 1e-6 : 4e-3;
  inputs.type = Type::f32;
  const AffineOutcome wanted = run_affine(*make_cpu_device(1), theirs, inputs);
  EXPECT_LT(relative_error(is.y, wanted.y), tolerance);
  EXPECT_LT(relative_error(is.dx, wanted.dx), tolerance);
  EXPECT_LT(relative_error(is.dw, wanted.dw), tolerance);
  if (inputs.biases) {
    EXPECT_LT(relative_error(is.db, wanted.db), 1e-6) << "its sum is fp32 in every type";
  }
}

TEST(CudaAffine, ConvolutionsMatchTheCpu) {
  const auto cpu = make_cpu_device(1);
  for (const Type type : {Type::f32, Type::bf16}) {
    for (const bool takes_biases : {true, false}) {
      for (const ConvolutionSpec& spec :
           {ConvolutionSpec{.input = {{2, 7, 6, 3}, type}, .filters = 5, .kernel = 3, .pad = 1},
            ConvolutionSpec{.input = {{70, 6, 7, 3}, type}, .filters = 5, .kernel = 3},
            ConvolutionSpec{.input = {{3, 5, 9, 8}, type}, .filters = 16, .kernel = 5, .pad = 2},
            ConvolutionSpec{.input = {{1, 8, 9, 4}, type},
            .filters = 6,
            .kernel = 3,
            .stride = 2,
            .pad = 1,
            .dilation = 2,
            .groups = 2,
            .relu = true},
            ConvolutionSpec{.input = {{3, 1, 11, 7}, type},
            .filters = 4,
            .kernel = 5,
            .pad = 2,
            .one_dimensional = true,
            .relu = true}}) {
        SCOPED_TRACE(testing::Message()
                     << name_of(type) << " " << spec.input.x.text() << " biases " << takes_biases);
        const LoopLibrary library(takes_biases);
        const Libraries libraries{&library};
        ConvolutionSpec wide = spec;
        wide.input.type = Type::f32;
        const auto ours = make_convolution(libraries, spec);
        expect_the_cpus(*ours, *cpu->convolution(wide),
                        {spec.input.x, spec.weights(), spec.output(), type});
        EXPECT_EQ(ours->implementation(), takes_biases ? "loop" : "loop and bias");
      }
    }
  }
}

/// Offers what LoopLibrary does, and notes for which work it was asked.
class AskedLibrary : public LoopLibrary {
 public:
  using LoopLibrary::LoopLibrary;
  std::shared_ptr<const Plan> plan(const Convolution& work) const override {
    asked.push_back(work);
    return LoopLibrary::plan(work);
  }
  mutable std::vector<Convolution> asked;
};

TEST(CudaAffine, LayersWithoutBiasesOrWithFrozenWeightsComputeNoneOfThese) {
  for (const bool fuses : {true, false}) {
    ConvolutionSpec spec{
        .input = {{2, 5, 4, 3}, Type::bf16}, .filters = 5, .kernel = 3, .pad = 1, .relu = true};
    const auto outcome_of = [&](AffinePlan& plan, AffineCase inputs) {
      inputs.x = spec.input.x, inputs.w = spec.weights(), inputs.y = spec.output();
      inputs.type = Type::bf16;
      return run_affine(*make_cpu_device(1), plan, inputs);
    };
    AskedLibrary library(fuses);
    const Libraries libraries{&library};
    const auto whole = make_convolution(libraries, spec);
    const AffineOutcome all = outcome_of(*whole, {});
    spec.biases = false;
    library.asked.clear();
    const auto without = make_convolution(libraries, spec);
    for (const Convolution& work : library.asked) EXPECT_FALSE(work.bias);
    const AffineOutcome plain = outcome_of(*without, {.biases = false});
    EXPECT_NE(plain.y, all.y);
    EXPECT_EQ(plain.dw, all.dw);
    EXPECT_EQ(plain.y, outcome_of(*whole, {.zero_biases = true}).y);
    spec.biases = spec.input.frozen = true;
    library.asked.clear();
    const auto frozen = make_convolution(libraries, spec);
    for (const Convolution& work : library.asked) EXPECT_NE(work.pass, Pass::backward_weights);
    EXPECT_EQ(outcome_of(*frozen, {.frozen = true}).db, all.db);
  }
}

TEST(CudaAffine, DenseLayersMatchTheCpu) {
  const auto cpu = make_cpu_device(1);
  for (const Type type : {Type::f32, Type::bf16}) {
    for (const DenseSpec& spec :
         {DenseSpec{{{5, 3, 2, 4}, type}, 7, true}, DenseSpec{{{70, 33}, type}, 10, false}}) {
      const LoopLibrary library;
      const Libraries libraries{&library};
      DenseSpec wide = spec;
      wide.input.type = Type::f32;
      const auto ours = make_dense(libraries, spec);
      expect_the_cpus(*ours, *cpu->dense(wide),
                      {spec.input.x,
                       {spec.features, spec.input.x.row()},
                       {spec.input.x[0], spec.features},
                       type});
    }
  }
}

TEST(CudaAffine, TheReluOfADenseLayerKeepsNan) {
  const auto cpu = make_cpu_device(1);
  for (const bool biases : {true, false}) {
    const LoopLibrary library;
    const Libraries libraries{&library};
    const auto plan = make_dense(
        libraries, {.input = {{2, 3}, Type::bf16}, .features = 4, .relu = true, .biases = biases});
    EXPECT_EQ(plan->implementation(), "loop and ReLU");
    Tensor x(*cpu, {2, 3}, Type::bf16), w(*cpu, {4, 3}, Type::f32), b(*cpu, {4}, Type::f32),
        y(*cpu, {2, 4}, Type::bf16);
    x.set({1, std::nan(""), 1, 1, 1, 1});
    w.set(Values(12, -1.0));
    b.set(Values(4, -1.0));
    std::vector<std::byte> scratch(plan->scratch_bytes());
    plan->forward(*cpu->stream(), x.view, w.view, biases ? b.view : View{}, y.view, scratch.data());
    const Values result = y.values();
    EXPECT_TRUE(std::all_of(result.begin(), result.begin() + 4, [](double v) { return v != v; }));
    EXPECT_EQ(Values(result.begin() + 4, result.end()), Values(4, 0.0));
  }
}

/// Layers of one shape, with a library that computes several at a time and with one that does not.
TEST(CudaAffine, StackedLayersAreThoseOfOneLayerEach) {
  for (const Type type : {Type::f32, Type::bf16}) {
    for (const bool stacks : {true, false}) {
      const LoopLibrary library(true, stacks);
      const Libraries libraries{&library};
      const auto device = make_cpu_device(1);
      const DenseSpec spec{
          .input = {{15, 4}, type}, .features = 7, .relu = true, .biases = false, .layers = 3};
      DenseSpec wide = spec;
      wide.input.type = Type::f32;
      const auto ours = make_dense(libraries, spec);
      expect_the_cpus(*ours, *device->dense(wide),
                      {.x = {15, 4}, .w = {21, 4}, .y = {15, 7}, .type = type, .biases = false});
    }
  }
}

TEST(CudaAffine, ProductsArePassesOfLayers) {
  constexpr std::int64_t kCount = 3, kRows = 5, kColumns = 7, kInner = 4;
  for (const Type type : {Type::f32, Type::bf16}) {
    for (const Type result : {Type::f32, type}) {
      for (const int transposed : {0, 1, 2, 3}) {
        SCOPED_TRACE(testing::Message() << name_of(type) << name_of(result) << transposed);
        const ProductSpec spec{.type = type,
                               .result = result,
                               .count = kCount,
                               .rows = kRows,
                               .columns = kColumns,
                               .inner = kInner,
                               .transposed_a = transposed % 2 == 1,
                               .transposed_b = transposed > 1};
        const auto product_by = [&](ProductPlan& plan) {
          const auto cpu = make_cpu_device(1);
          Tensor a(*cpu, {kCount * kRows * kInner}, type),
              b(*cpu, {kCount * kInner * kColumns}, type),
              c(*cpu, {kCount * kRows * kColumns}, result);
          for (Tensor* factor : {&a, &b}) {
            Values values(factor->view.count());
            for (std::size_t i = 0; i < values.size(); ++i)
              values[i] = static_cast<double>(i * 7 % 33) / 16 - 1;
            factor->set(values);
          }
          std::vector<std::byte> scratch(plan.scratch_bytes());
          plan.run(*cpu->stream(), a.view, b.view, c.view, scratch.data());
          return c.values();
        };
        const LoopLibrary library(true, /*stacks=*/true);
        const Libraries libraries{&library};
        const auto plan = make_product(libraries, spec);
        EXPECT_EQ(plan->implementation(), transposed == 3 ? "rows" : "loop");
        EXPECT_EQ(product_by(*plan), product_by(*make_row_product(spec)));
      }
    }
  }
}

TEST(CudaAffine, UnsupportedWorkIsRefused) {
  const EmptyLibrary library;
  const Libraries libraries{&library};
  const DenseSpec spec{{{5, 3}, Type::bf16}, 7, true};
  const std::string error = error_of([&] { make_dense(libraries, spec); });
  EXPECT_TRUE(mentions(error, {"forward bf16 5x1x1x3 7x1x1x3 5x1x1x7"}));
}

/// A device whose libraries offer nothing.
class BareDevice : public WrappedDevice {
 public:
  std::unique_ptr<AffinePlan> convolution(const ConvolutionSpec& spec) override {
    return make_convolution(libraries_, spec);
  }
  std::unique_ptr<AffinePlan> dense(const DenseSpec& spec) override {
    return make_dense(libraries_, spec);
  }

 private:
  EmptyLibrary library_;
  Libraries libraries_{&library_};
};

TEST(CudaAffine, AnUnsupportedLayerIsNamed) {
  const auto refusal = [](std::unique_ptr<Layer> layer, Shape in) {
    BareDevice device;
    lockstep::Setup setup(device, Type::bf16, true, true, "block1/one");
    return error_of([&] { layer->setup(setup, in); });
  };
  for (const std::string& error :
       {refusal(dense(7, true, {}), {5, 3}), refusal(convolution(4, 3, true, {}), {2, 6, 6, 3})}) {
    EXPECT_TRUE(mentions(error, {"block1/one", "kernel", "forward bf16"}));
  }
}

TEST(CudaAffine, UnsupportedTypesAreRefused) {
  const LoopLibrary library;
  const Libraries libraries{&library};
  EXPECT_THROW(make_dense(libraries, DenseSpec{{{5, 3}, Type::i32}, 7, true}), Error);
}

TEST(Libraries, TheFirstThatSupportsTheWorkDecides) {
  const EmptyLibrary none;
  const LoopLibrary loops, others(true, false, "other");
  Convolution work;
  work.x = {2, 1, 1, 3}, work.w = {4, 1, 1, 3}, work.y = {2, 1, 1, 4};
  EXPECT_EQ(choose({&none, &loops, &others}, work)->name(), "loop");
  EXPECT_EQ(choose({&others, &loops}, work)->name(), "other");
  EXPECT_EQ(choose({&none}, work), nullptr);
}

}  // namespace
}  // namespace lockstep::cuda
