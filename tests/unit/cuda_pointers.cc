// The kernels around a GPU's libraries use only memory of the device, and no byte behind scratch:
// run by the CPU, with a library that touches its tensors.
#include <gtest/gtest.h>

#include <vector>

#include "src/base/round_up.h"
#include "src/device/cuda/layers.h"
#include "src/device/each.h"
#include "tests/support/async_device.h"

namespace lockstep::cuda {
namespace {

struct Bytes {
  std::byte* data;
  std::int64_t count;
};

/// Reads and writes every byte.
struct Touch {
  Bytes tensors[5];
  HOST_DEVICE void operator()(std::int64_t n) const {
    for (std::int64_t i = 0; i < tensors[n].count; ++i) {
      volatile std::byte* place = tensors[n].data + i;
      *place = *place;
    }
  }
};

class TouchPlan : public Plan {
 public:
  explicit TouchPlan(Convolution work) : work_(std::move(work)) {}
  void run(Stream& stream, const Tensors& t, void* workspace) const override {
    const auto bytes = [&](void* data, std::int64_t count) {
      return Bytes{static_cast<std::byte*>(data),
                   count * static_cast<std::int64_t>(size_of(work_.type))};
    };
    each(stream, 5,
         Touch{{bytes(t.x, work_.x.count()),
                bytes(t.w, work_.w.count()),
                bytes(t.y, work_.y.count()),
                bytes(t.b, work_.bias ? work_.w[0] : 0),
                {static_cast<std::byte*>(workspace), kWorkspace}}});
  }
  std::size_t workspace_bytes() const override { return kWorkspace; }
  const std::string& name() const override { return name_; }

 private:
  static constexpr std::int64_t kWorkspace = 768;  // of 256, so that scratch can end with a page

  Convolution work_;
  std::string name_ = "touch";
};

/// `biases`: whether its plans add them.
class TouchLibrary : public Library {
 public:
  explicit TouchLibrary(bool biases) : biases_(biases) {}
  Plans plans(const Convolution& work, std::size_t) const override {
    if (work.bias && !biases_) return {};
    return {std::make_shared<TouchPlan>(work)};
  }
  std::string version() const override { return "touch 1"; }

 private:
  bool biases_;
};

/// Tensors of zeros in memory of the strict double.
class CudaPointers : public testing::TestWithParam<Type> {
 protected:
  View tensor(Shape shape, Type type) {
    const View view{nullptr, shape, type};
    return {block(view.bytes()), shape, type};
  }
  /// The end of it is the end of a page, and the next page is closed.
  void* block(std::size_t bytes) {
    const std::size_t pages = round_up(std::max<std::size_t>(bytes, 1), kPageBytes);
    memory_.push_back(device_->allocate(pages, Place::device));
    return memory_.back().get() + pages - bytes;
  }
  void run_all(AffinePlan& plan, Shape in, Shape weights, Shape out, Type type) {
    const View x = tensor(in, type), w = tensor(weights, Type::f32),
               b = tensor({weights[0]}, Type::f32), y = tensor(out, type);
    void* const scratch = block(plan.scratch_bytes());
    plan.forward(*stream_, x, w, b, y, scratch);
    plan.backward_data(*stream_, y, w, x, scratch);
    plan.backward_weights(*stream_, x, y, w, b, scratch);
    EXPECT_NO_THROW(stream_->synchronize());
  }

  std::unique_ptr<Device> device_ = make_async_device();
  std::unique_ptr<Stream> stream_ = device_->stream();

 private:
  std::vector<Memory> memory_;
};

TEST_P(CudaPointers, AffinePlansUseOnlyTheDevices) {
  for (const bool biases : {true, false}) {
    const TouchLibrary library(biases);
    Planner planner({&library}, "nothing");
    for (const std::int64_t batch : {1, 70}) {
      const ConvolutionSpec conv{.input = {.x = {batch, 6, 7, 3}, .type = GetParam()},
                                 .filters = 5,
                                 .kernel = 3,
                                 .relu = true};
      run_all(*make_convolution(planner, conv), conv.input.x, conv.weights(), conv.output(),
              GetParam());
      const DenseSpec dense{.input = {.x = {batch, 33}, .type = GetParam()}, .features = 10};
      run_all(*make_dense(planner, dense), dense.input.x, {10, 33}, {batch, 10}, GetParam());
    }
  }
}

TEST_P(CudaPointers, ResponseNormUsesOnlyTheDevices) {
  const Shape shape{2, 3, 5, 7};
  const auto plan = make_response_norm({.input = {.x = shape, .type = GetParam()}, .radius = 2});
  const View x = tensor(shape, GetParam()), y = tensor(shape, GetParam()),
             dx = tensor(shape, GetParam());
  plan->forward(*stream_, x, y);
  plan->backward(*stream_, x, y, dx, block(plan->scratch_bytes()));
  EXPECT_NO_THROW(stream_->synchronize());
}

INSTANTIATE_TEST_SUITE_P(Types, CudaPointers, testing::Values(Type::f32, Type::bf16, Type::f16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace lockstep::cuda
