// Affine layers of GPUs on a library of loops in double, against the CPU's plans. They test
// Lockstep's part: the choice of plans, conversions, sums of biases' gradients, layout of scratch.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "net/layers.h"
#include "src/base/random.h"
#include "src/device/cuda/layers.h"
#include "tests/support/error_of.h"

namespace lockstep::cuda {
namespace {

using Values = std::vector<double>;

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

/// Calls f(place in x, place in w, place in y) for every product of the convolution.
template <class F>
void for_products(const Convolution& c, F f) {
  for (std::int64_t n = 0; n < c.y[0]; ++n)
    for (std::int64_t oy = 0; oy < c.y[1]; ++oy)
      for (std::int64_t ox = 0; ox < c.y[2]; ++ox)
        for (std::int64_t o = 0; o < c.y[3]; ++o)
          for (std::int64_t ky = 0; ky < c.w[1]; ++ky)
            for (std::int64_t kx = 0; kx < c.w[2]; ++kx) {
              const std::int64_t iy = oy * c.stride[0] - c.pad[0] + ky * c.dilation[0],
                                 ix = ox * c.stride[1] - c.pad[1] + kx * c.dilation[1];
              if (iy < 0 || iy >= c.x[1] || ix < 0 || ix >= c.x[2]) continue;
              const std::int64_t groups = c.x[3] / c.w[3], group = o / (c.y[3] / groups);
              for (std::int64_t i = 0; i < c.w[3]; ++i)
                f(((n * c.x[1] + iy) * c.x[2] + ix) * c.x[3] + group * c.w[3] + i,
                  ((o * c.w[1] + ky) * c.w[2] + kx) * c.w[3] + i,
                  ((n * c.y[1] + oy) * c.y[2] + ox) * c.y[3] + o);
            }
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
        for (double& value : y) value = std::max(value, 0.0);
      }
      if (c.pass == Pass::forward) write(y, t.y, result);
      if (c.pass == Pass::backward_data) write(x, t.x, result);
      if (c.pass == Pass::backward_weights) write(w, t.w, result);
    });
  }
  std::size_t workspace_bytes() const override { return kWorkspace; }
  const std::string& name() const override { return name_; }

  static constexpr std::size_t kWorkspace = 777;

 private:
  Type result() const { return work_.fp32_result ? Type::f32 : work_.type; }

  Convolution work_;
  std::string name_;
};

/// Offers `count` plans for all work, or only for work without biases.
class LoopLibrary : public Library {
 public:
  explicit LoopLibrary(int count, bool takes_biases = true, std::string name = "loop",
                       bool stacks = false)
      : count_(count), takes_biases_(takes_biases), stacks_(stacks), name_(std::move(name)) {}
  Plans plans(const Convolution& work, std::size_t most) const override {
    Plans plans;
    if ((work.bias && !takes_biases_) || (work.layers > 1 && !stacks_)) return plans;
    for (int i = 0; i < count_ && plans.size() < most; ++i)
      plans.push_back(std::make_shared<LoopPlan>(work, name_ + std::to_string(i)));
    return plans;
  }
  std::string version() const override { return name_ + " 1"; }

 private:
  int count_;
  bool takes_biases_, stacks_;
  std::string name_;
};

/// The results of a plan for fixed random inputs, which bf16 represents exactly.
struct Outcome {
  Values y, dx, dw, db;
};
struct Kept {
  bool biases = true, frozen = false, zero_biases = false;
};

Outcome outcome_of(AffinePlan& plan, Shape x, Shape w, Shape y, Type type, Kept kept = {}) {
  auto fill = [number = 0u](const Shape& shape, Type of) mutable {
    Random random(3, Purpose::generate, 0, ++number);
    Values values(shape.count());
    for (double& value : values) value = static_cast<float>(random.below(65)) / 32 - 1;
    std::vector<std::byte> memory(values.size() * size_of(of));
    write(values, memory.data(), of);
    return memory;
  };
  const auto poisoned = [](const Shape& shape, Type of) {
    return std::vector<std::byte>(shape.count() * size_of(of), std::byte{0xff});
  };
  auto xs = fill(x, type), ws = fill(w, Type::f32), bs = fill({w[0]}, Type::f32),
       dys = fill(y, type);
  if (kept.zero_biases) std::fill(bs.begin(), bs.end(), std::byte{});
  auto ys = poisoned(y, type), dxs = poisoned(x, type), dws = poisoned(w, Type::f32),
       dbs = poisoned({w[0]}, Type::f32);
  HostStream stream;
  const auto scratch = [&] {
    return std::vector<std::byte>(plan.scratch_bytes(), std::byte{0xff});
  };
  auto own = scratch();
  const View x_view{xs.data(), x, type}, w_view{ws.data(), w, Type::f32},
      dy_view{dys.data(), y, type};
  const auto vector = [&](auto& memory) {
    return kept.biases ? View{memory.data(), {w[0]}, Type::f32} : View();
  };
  plan.forward(stream, x_view, w_view, vector(bs), {ys.data(), y, type}, own.data());
  own = scratch();
  plan.backward_data(stream, dy_view, w_view, {dxs.data(), x, type}, own.data());
  own = scratch();
  plan.backward_weights(stream, x_view, dy_view,
                        kept.frozen ? View() : View{dws.data(), w, Type::f32}, vector(dbs),
                        own.data());
  return {read(ys.data(), y, type), read(dxs.data(), x, type), read(dws.data(), w, Type::f32),
          read(dbs.data(), {w[0]}, Type::f32)};
}

double distance(const Values& a, const Values& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

void expect_near(const Outcome& a, const Outcome& b, double tolerance) {
  EXPECT_LT(distance(a.y, b.y), tolerance);
  EXPECT_LT(distance(a.dx, b.dx), tolerance);
  EXPECT_LT(distance(a.dw, b.dw), tolerance);
  EXPECT_LT(distance(a.db, b.db), 1e-6) << "its sum is fp32 in every type";
}

TEST(CudaAffine, ConvolutionsMatchTheCpu) {
  const auto cpu = make_cpu_device(1);
  for (const Type type : {Type::f32, Type::bf16}) {
    for (const bool takes_biases : {true, false}) {
      for (const ConvolutionSpec& spec :
           {ConvolutionSpec{.input = {{2, 7, 6, 3}, type}, .filters = 5, .kernel = 3, .pad = 1},
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
        const LoopLibrary library(1, takes_biases);
        Planner planner({&library}, "nothing");
        const Shape w = spec.weights();
        ConvolutionSpec wide = spec;
        wide.input.type = Type::f32;
        const auto ours = make_convolution(planner, spec);
        const auto theirs = cpu->convolution(wide);
        expect_near(outcome_of(*ours, spec.input.x, w, spec.output(), type),
                    outcome_of(*theirs, spec.input.x, w, spec.output(), Type::f32),
                    type == Type::f32 ? 1e-6 : 4e-3);
        EXPECT_EQ(ours->implementation(), takes_biases ? "loop0" : "loop0 and bias");
      }
    }
  }
}

/// Offers what LoopLibrary does, and notes for which work it was asked.
class AskedLibrary : public LoopLibrary {
 public:
  using LoopLibrary::LoopLibrary;
  Plans plans(const Convolution& work, std::size_t most) const override {
    asked.push_back(work);
    return LoopLibrary::plans(work, most);
  }
  mutable std::vector<Convolution> asked;
};

TEST(CudaAffine, LayersWithoutBiasesOrWithFrozenWeightsComputeNoneOfThese) {
  for (const bool fuses : {true, false}) {
    ConvolutionSpec spec{
        .input = {{2, 5, 4, 3}, Type::bf16}, .filters = 5, .kernel = 3, .pad = 1, .relu = true};
    const Shape y = spec.output();
    AskedLibrary library(1, fuses);
    Planner planner({&library}, "nothing");
    const auto whole = make_convolution(planner, spec);
    const Outcome all = outcome_of(*whole, spec.input.x, spec.weights(), y, Type::bf16, {});
    spec.biases = false;
    library.asked.clear();
    const auto without = make_convolution(planner, spec);
    for (const Convolution& work : library.asked) EXPECT_FALSE(work.bias);
    const Outcome plain =
        outcome_of(*without, spec.input.x, spec.weights(), y, Type::bf16, {.biases = false});
    EXPECT_NE(plain.y, all.y);
    EXPECT_EQ(plain.dw, all.dw);
    EXPECT_EQ(
        plain.y,
        outcome_of(*whole, spec.input.x, spec.weights(), y, Type::bf16, {.zero_biases = true}).y);
    spec.biases = spec.input.frozen = true;
    library.asked.clear();
    const auto frozen = make_convolution(planner, spec);
    for (const Convolution& work : library.asked) EXPECT_NE(work.pass, Pass::backward_weights);
    EXPECT_EQ(outcome_of(*frozen, spec.input.x, spec.weights(), y, Type::bf16, {.frozen = true}).db,
              all.db);
  }
}

TEST(CudaAffine, DenseLayersMatchTheCpu) {
  const auto cpu = make_cpu_device(1);
  for (const Type type : {Type::f32, Type::bf16}) {
    for (const DenseSpec& spec :
         {DenseSpec{{{5, 3, 2, 4}, type}, 7, true}, DenseSpec{{{70, 33}, type}, 10, false}}) {
      const LoopLibrary library(1);
      Planner planner({&library}, "nothing");
      const Shape w{spec.features, spec.input.x.row()}, y{spec.input.x[0], spec.features};
      DenseSpec wide = spec;
      wide.input.type = Type::f32;
      const auto ours = make_dense(planner, spec);
      const auto theirs = cpu->dense(wide);
      expect_near(outcome_of(*ours, spec.input.x, w, y, type),
                  outcome_of(*theirs, spec.input.x, w, y, Type::f32),
                  type == Type::f32 ? 1e-6 : 4e-3);
    }
  }
}

/// Layers of one shape, with a library that computes several at a time and with one that does not.
TEST(CudaAffine, StackedLayersAreThoseOfOneLayerEach) {
  for (const Type type : {Type::f32, Type::bf16}) {
    for (const bool stacks : {true, false}) {
      const LoopLibrary library(1, true, "loop", stacks);
      Planner planner({&library}, "nothing");
      const auto device = make_cpu_device(1);
      const DenseSpec spec{
          .input = {{15, 4}, type}, .features = 7, .relu = true, .biases = false, .layers = 3};
      DenseSpec wide = spec;
      wide.input.type = Type::f32;
      const auto outcome = [&](AffinePlan& plan, Type of) {
        return outcome_of(plan, {15, 4}, {21, 4}, {15, 7}, of, {.biases = false});
      };
      const Outcome is = outcome(*make_dense(planner, spec), type),
                    wanted = outcome(*device->dense(wide), Type::f32);
      const double tolerance = type == Type::f32 ? 1e-6 : 4e-3;
      EXPECT_LT(distance(is.y, wanted.y), tolerance);
      EXPECT_LT(distance(is.dx, wanted.dx), tolerance);
      EXPECT_LT(distance(is.dw, wanted.dw), tolerance);
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
          const Shape a{kCount * kRows * kInner}, b{kCount * kInner * kColumns},
              c{kCount * kRows * kColumns};
          std::vector<std::byte> as(a.count() * size_of(type)), bs(b.count() * size_of(type)),
              cs(c.count() * size_of(result)), scratch(plan.scratch_bytes());
          const auto fill = [&](std::vector<std::byte>& to, const Shape& shape) {
            Values values(shape.count());
            for (std::size_t i = 0; i < values.size(); ++i)
              values[i] = static_cast<double>(i * 7 % 33) / 16 - 1;
            write(values, to.data(), type);
          };
          fill(as, a), fill(bs, b);
          HostStream stream;
          plan.run(stream, {as.data(), a, type}, {bs.data(), b, type}, {cs.data(), c, result},
                   scratch.data());
          return read(cs.data(), c, result);
        };
        const LoopLibrary library(1, true, "loop", /*stacks=*/true);
        Planner planner({&library}, "nothing");
        const auto plan = make_product(planner, spec);
        EXPECT_EQ(plan->implementation(), transposed == 3 ? "rows" : "loop0");
        EXPECT_EQ(product_by(*plan), product_by(*make_row_product(spec)));
      }
    }
  }
}

TEST(CudaAffine, UnsupportedWorkIsRefused) {
  const LoopLibrary library(0);
  Planner planner({&library}, "nothing");
  const DenseSpec spec{{{5, 3}, Type::bf16}, 7, true};
  const std::string error = error_of([&] { make_dense(planner, spec); });
  EXPECT_TRUE(mentions(error, {"forward bf16 5x1x1x3 7x1x1x3 5x1x1x7"}));
}

/// A device without libraries.
class BareDevice : public Device {
 public:
  std::string arithmetic() const override { return "none"; }
  std::unique_ptr<Stream> stream(Priority) override { return std::make_unique<HostStream>(); }
  std::unique_ptr<Event> event() override { return {}; }
  Memory allocate(std::size_t, Place) override { return {}; }
  void copy(Stream&, void*, const void*, std::size_t) override {}
  std::unique_ptr<Graph> capture(Stream&, const std::function<void()>&) override { return {}; }
  std::unique_ptr<AffinePlan> convolution(const ConvolutionSpec& spec) override {
    return make_convolution(planner_, spec);
  }
  std::unique_ptr<AffinePlan> dense(const DenseSpec& spec) override {
    return make_dense(planner_, spec);
  }
  std::unique_ptr<ResponseNormPlan> response_norm(const ResponseNormSpec&) override { return {}; }
  std::unique_ptr<ProductPlan> product(const ProductSpec&) override { return {}; }

 private:
  LoopLibrary library_{0};
  Planner planner_{{&library_}, "nothing"};
};

TEST(CudaAffine, AnUnsupportedLayerIsNamed) {
  const auto refusal = [](std::unique_ptr<Layer> layer, Shape in) {
    BareDevice device;
    lockstep::Setup setup(device, Type::f16, true, true, "block1/one");
    return error_of([&] { layer->setup(setup, in); });
  };
  for (const std::string& error :
       {refusal(dense(7, true, {}), {5, 3}), refusal(convolution(4, 3, true, {}), {2, 6, 6, 3})}) {
    EXPECT_TRUE(mentions(error, {"block1/one", "kernel", "forward fp16"}));
  }
}

TEST(CudaAffine, UnsupportedTypesAreRefused) {
  const LoopLibrary library(1);
  Planner planner({&library}, "nothing");
  EXPECT_THROW(make_dense(planner, DenseSpec{{{5, 3}, Type::i32}, 7, true}), Error);
}

TEST(Planner, ChoosesTheFirstTheTunedOrTheFastest) {
  const LoopLibrary loops(3), others(2, true, "other");
  Planner planner({&loops, &others}, "nothing");
  Convolution work;
  work.x = {2, 1, 1, 3}, work.w = {4, 1, 1, 3}, work.y = {2, 1, 1, 4};
  EXPECT_EQ(planner.choose(work)->name(), "loop0");
  EXPECT_EQ(planner.tuning().text(), "lockstep tuning for loop 1, other 1 on nothing\n");

  std::vector<std::string> racers;
  planner.set_race([&](const Convolution& raced, const Plans& plans) {
    EXPECT_EQ(raced.text(), work.text());
    for (const auto& plan : plans) racers.push_back(plan->name());
    return racers.size() - 1;
  });
  EXPECT_EQ(planner.choose(work)->name(), "other1");
  EXPECT_EQ(racers, (std::vector<std::string>{"loop0", "loop1", "loop2", "other0", "other1"}));
  planner.choose(work);
  EXPECT_EQ(racers.size(), 5u) << "known work needs no race";

  Planner tuned({&loops, &others}, "nothing");
  ASSERT_TRUE(tuned.tuning().set_text(planner.tuning().text()));
  EXPECT_EQ(tuned.choose(work)->name(), "other1");
  tuned.tuning().note(work.text(), "loop9");
  EXPECT_TRUE(mentions(error_of([&] { tuned.choose(work); }), {"loop9 is not offered"}));
  tuned.set_race([](const Convolution&, const Plans&) { return std::size_t{1}; });
  EXPECT_EQ(tuned.choose(work)->name(), "loop1");
  EXPECT_EQ(*tuned.tuning().find(work.text()), "loop1");
}

}  // namespace
}  // namespace lockstep::cuda
