// The double of a device finds each pointer that a GPU could not follow: into memory of the host,
// beyond a block, in a plan and in a kernel.
#include <gtest/gtest.h>

#include <vector>

#include "bench/affine_bench.h"
#include "src/device/each.h"
#include "tests/support/async_device.h"
#include "tests/support/device_pages.h"

namespace lockstep {
namespace {

#ifdef __SANITIZE_THREAD__
#define SKIP_WITHOUT_CHECKS() GTEST_SKIP() << "skipped: the checks would hide races"
#else
#define SKIP_WITHOUT_CHECKS() testing::FLAGS_gtest_death_test_style = "threadsafe"
#endif

struct CopyOne {
  const float* from;
  float* to;
  HOST_DEVICE void operator()(std::int64_t i) const { to[i] = from[i]; }
};

struct CopyRow {
  const float* from;
  float* to;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team) const {
    to[row] = from[row];
  }
};

/// A pointer between words with padding.
struct Mixed {
  bool set;
  float* to;
  float value;
  std::int32_t unused[3];
  HOST_DEVICE void operator()(std::int64_t i) const { to[i] = set ? value : 0; }
};

float global = 5;

class HostPointers : public testing::Test {
 protected:
  std::unique_ptr<Device> device_ = make_async_device();
  std::unique_ptr<Stream> stream_ = device_->stream();
  Memory here_ = device_->allocate(4096, Place::device),
         pinned_ = device_->allocate(4096, Place::host);
  float* const on_device_ = reinterpret_cast<float*>(here_.get());
  float* const on_host_ = reinterpret_cast<float*>(pinned_.get());

  void each_now(CopyOne body) {
    each(*stream_, 1, body);
    stream_->synchronize();
  }
};

TEST_F(HostPointers, KernelsMayFollowThoseOfTheDevice) {
  *on_host_ = 7;
  each_now({on_host_, on_device_});
  each_now({on_device_, on_host_ + 1});
  EXPECT_EQ(on_host_[1], 7);
  each(*stream_, 0, CopyOne{&global, on_device_});
  each(*stream_, 1, Mixed{true, on_host_, 3, {1, 2, 3}});
  stream_->synchronize();
  EXPECT_EQ(*on_host_, 3);
}

TEST_F(HostPointers, KernelsDieWhenTheyFollowOthersAndAreNamed) {
  SKIP_WITHOUT_CHECKS();
  const std::vector<float> heap(1);
  float stack = 0;
  for (const float* from :
       {heap.data(), static_cast<const float*>(&stack), static_cast<const float*>(&global)}) {
    EXPECT_DEATH(each_now({from, on_device_}), "SIGSEGV.*each.*CopyOne");
  }
  EXPECT_DEATH(each_now({on_device_, &stack}), "SIGSEGV.*each.*CopyOne");
  EXPECT_DEATH(
      {
        each_row(*stream_, 1, 1, CopyRow{heap.data(), on_device_});
        stream_->synchronize();
      },
      "SIGSEGV.*each_row.*CopyRow");
  EXPECT_DEATH(
      {
        const auto graph = device_->capture(*stream_, [&] {
          each(*stream_, 1, CopyOne{heap.data(), on_device_});
        });
        graph->launch(*stream_);
        stream_->synchronize();
      },
      "SIGSEGV.*each.*CopyOne");
}

TEST_F(HostPointers, KernelsDieBehindTheEndOfABlock) {
  SKIP_WITHOUT_CHECKS();
  EXPECT_DEATH(each_now({on_device_ + 1024, on_device_}), "SIGSEGV.*each.*CopyOne");
  EXPECT_DEATH(each_now({on_host_ + 1024, on_device_}), "SIGSEGV.*each.*CopyOne");
}

TEST_F(HostPointers, TheHostDiesWhenItWritesNewMemory) {
  SKIP_WITHOUT_CHECKS();
  EXPECT_DEATH(*on_device_ = 1, "");
}

/// Expects a fault that names `what` from `call`, and none without the change of `view` to other
/// memory, or beyond the end of its block.
void expect_checked(Device& device, View& view, const std::string& what,
                    const std::function<void()>& call) {
  SCOPED_TRACE(what);
  EXPECT_NO_THROW(call());
  const View before = view;
  std::vector<float> host(view.count() + 1);
  const Memory pinned = device.allocate(view.bytes() + 1, Place::host);
  const auto expect_fault = [&] {
    try {
      call();
      ADD_FAILURE() << "no fault";
    } catch (const PointerFault& fault) {
      EXPECT_EQ(std::string(fault.what()).rfind(what + " (", 0), 0u) << fault.what();
    }
    view = before;
  };
  view.data = host.data();
  expect_fault();
  view.data = pinned.get();
  expect_fault();
  if (what != "biases") {  // a plan may have none
    view.data = nullptr;
    expect_fault();
  }
  view.data = static_cast<std::byte*>(view.data) + 2;  // NoiseTensors has one byte to spare
  expect_fault();
}

/// Views of a plan, and its scratch as one.
struct Views {
  explicit Views(Device& device) : noise(device) {}
  View operator()(Shape shape) { return noise.tensor(shape, Type::f32); }
  View scratch(std::size_t bytes) {
    const Shape shape{static_cast<std::int64_t>(bytes / sizeof(float))};
    return {noise.memory(bytes), shape, Type::f32};
  }
  NoiseTensors noise;
};

void expect_plan_checked(Device& device, AffinePlan& plan, Shape in, Shape weights, Shape out) {
  const auto stream = device.stream();
  Views views(device);
  View x = views(in), w = views(weights), b = views({weights[0]}), y = views(out), dx = views(in),
       dw = views(weights), db = views({weights[0]}), dy = views(out),
       scratch = views.scratch(plan.scratch_bytes());
  const auto check_scratch = [&](const std::function<void()>& call) {
    if (plan.scratch_bytes() > 0) expect_checked(device, scratch, "scratch", call);
  };
  const auto forward = [&] { plan.forward(*stream, x, w, b, y, scratch.data); };
  const auto backward_data = [&] { plan.backward_data(*stream, dy, w, dx, scratch.data); };
  const auto backward_weights = [&] {
    plan.backward_weights(*stream, x, dy, dw, db, scratch.data);
  };
  expect_checked(device, x, "x", forward);
  expect_checked(device, w, "w", forward);
  expect_checked(device, b, "biases", forward);
  expect_checked(device, y, "y", forward);
  check_scratch(forward);
  expect_checked(device, dy, "dy", backward_data);
  expect_checked(device, w, "w", backward_data);
  expect_checked(device, dx, "dx", backward_data);
  check_scratch(backward_data);
  expect_checked(device, x, "x", backward_weights);
  expect_checked(device, dy, "dy", backward_weights);
  expect_checked(device, dw, "dw", backward_weights);
  expect_checked(device, db, "biases", backward_weights);
  check_scratch(backward_weights);
  stream->synchronize();
}

TEST_F(HostPointers, PlansRefuseOthersThanTheDevices) {
  SKIP_WITHOUT_CHECKS();
  const ConvolutionSpec conv{.input = {.x = {2, 6, 6, 4}}, .filters = 8, .kernel = 3, .pad = 1};
  const auto plan = device_->convolution(conv);
  EXPECT_GT(plan->scratch_bytes(), 0u) << "choose another convolution";
  expect_plan_checked(*device_, *plan, conv.input.x, conv.weights(), conv.output());
  const DenseSpec dense{.input = {.x = {5, 40}}, .features = 7};
  expect_plan_checked(*device_, *device_->dense(dense), dense.input.x, {7, 40}, {5, 7});
}

TEST_F(HostPointers, ResponseNormRefusesOthersThanTheDevices) {
  SKIP_WITHOUT_CHECKS();
  const Shape shape{2, 3, 3, 8};
  const auto plan = device_->response_norm({.input = {.x = shape}, .radius = 2});
  Views views(*device_);
  View x = views(shape), y = views(shape), dy = views(shape), dx = views(shape),
       scratch = views.scratch(plan->scratch_bytes());
  const auto forward = [&] { plan->forward(*stream_, x, y); };
  const auto backward = [&] { plan->backward(*stream_, x, dy, dx, scratch.data); };
  expect_checked(*device_, x, "x", forward);
  expect_checked(*device_, y, "y", forward);
  expect_checked(*device_, x, "x", backward);
  expect_checked(*device_, dy, "dy", backward);
  expect_checked(*device_, dx, "dx", backward);
  if (plan->scratch_bytes() > 0) expect_checked(*device_, scratch, "scratch", backward);
  stream_->synchronize();
}

}  // namespace
}  // namespace lockstep
