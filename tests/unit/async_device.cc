// The double of a device detects violations of src/device/device.h: errors appear when the host
// waits, and its memory is closed to the host. It finds each pointer that a GPU could not follow:
// into memory of the host, beyond a block, in a plan and in a kernel. Its order of work, events and
// graphs is what device_loaders, training_clock and the tests of training steps rest on.
#include "tests/support/async_device.h"

#include <gtest/gtest.h>

#include <csignal>
#include <vector>

#include "src/device/each.h"
#include "tests/support/device_pages.h"
#include "tests/support/expect_error.h"
#include "tests/support/tensor.h"

namespace lockstep {
namespace {

#ifdef __SANITIZE_THREAD__
#define SKIP_WITHOUT_CHECKS() GTEST_SKIP() << "skipped: the checks would hide races"
#else
#define SKIP_WITHOUT_CHECKS() testing::FLAGS_gtest_death_test_style = "threadsafe"
#endif

TEST(AsyncDevice, ErrorsAppearWhenTheHostWaits) {
  const auto device = make_async_device();
  const auto stream = device->stream();
  stream->enqueue([] { expect(false, "a kernel failed"); });
  expect_error({"a kernel failed"}, [&] { stream->synchronize(); });
}

TEST(AsyncDevice, MemoryOfTheDeviceIsClosedToTheHost) {
  SKIP_WITHOUT_CHECKS();
  const auto device = make_async_device();
  const auto stream = device->stream();
  const Memory memory = device->allocate(10000, Place::device),
               host = device->allocate(10000, Place::host);
  EXPECT_DEATH(memory[0] = std::byte{1}, "") << "also if it is new";
  stream->enqueue([&] { memory[9999] = std::byte{5}; });
  device->copy(*stream, host.get(), memory.get(), 10000);
  stream->synchronize();
  EXPECT_EQ(host[9999], std::byte{5});
  EXPECT_EQ(host[9998], std::byte{0}) << "memory is zeroed";
  volatile std::byte* place = memory.get();
  // By SIGSEGV, or by a sanitizer's exit code.
  EXPECT_DEATH(static_cast<void>(*place), "");
  EXPECT_DEATH(*place = std::byte{1}, "");
}

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
  EXPECT_DEATH(each_now({on_device_ + 1024, on_device_}), "SIGBUS.*each.*CopyOne");
  EXPECT_DEATH(each_now({on_host_ + 1024, on_device_}), "SIGSEGV.*each.*CopyOne");
}

/// Expects a fault of `call` that names the view, when one of `views` is moved to other memory or
/// beyond the end of its block, and none before. Views without values are left out.
void expect_checked(Device& device, const std::function<void()>& call,
                    const std::vector<std::pair<const char*, View*>>& views) {
  EXPECT_NO_THROW(call());
  for (const auto& [what, view] : views) {
    if (view->count() == 0) continue;
    SCOPED_TRACE(what);
    const View before = *view;
    std::vector<float> host(view->count());
    const Memory pinned = device.allocate(view->bytes(), Place::host);
    // Fewer than 16 bytes of its block follow a tensor.
    std::vector<void*> others{host.data(), pinned.get(), static_cast<std::byte*>(view->data) + 16};
    if (what != std::string("biases")) others.push_back(nullptr);  // a plan may have none
    for (void* other : others) {
      view->data = other;
      try {
        call();
        ADD_FAILURE() << "no fault";
      } catch (const PointerFault& fault) {
        EXPECT_TRUE(std::string(fault.what()).starts_with(what + std::string(" (")))
            << fault.what();
      }
      *view = before;
    }
  }
}

Tensor scratch_of(Device& device, std::size_t bytes) {
  return {device, {static_cast<std::int64_t>(bytes / sizeof(float))}, Type::f32};
}

void expect_plan_checked(Device& device, AffinePlan& plan, Shape in, Shape weights, Shape out) {
  const auto stream = device.stream();
  const auto tensor = [&](Shape shape) { return Tensor(device, shape, Type::f32); };
  Tensor x = tensor(in), w = tensor(weights), b = tensor({weights[0]}), y = tensor(out),
         dx = tensor(in), dw = tensor(weights), db = tensor({weights[0]}), dy = tensor(out),
         scratch = scratch_of(device, plan.scratch_bytes());
  View& own = scratch.view;
  expect_checked(
      device, [&] { plan.forward(*stream, x.view, w.view, b.view, y.view, own.data); },
      {{"x", &x.view}, {"w", &w.view}, {"biases", &b.view}, {"y", &y.view}, {"scratch", &own}});
  expect_checked(device, [&] { plan.backward_data(*stream, dy.view, w.view, dx.view, own.data); },
                 {{"dy", &dy.view}, {"w", &w.view}, {"dx", &dx.view}, {"scratch", &own}});
  expect_checked(
      device, [&] { plan.backward_weights(*stream, x.view, dy.view, dw.view, db.view, own.data); },
      {{"x", &x.view},
       {"dy", &dy.view},
       {"dw", &dw.view},
       {"biases", &db.view},
       {"scratch", &own}});
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
  Tensor x(*device_, shape, Type::f32), y(*device_, shape, Type::f32),
      dy(*device_, shape, Type::f32), dx(*device_, shape, Type::f32),
      scratch = scratch_of(*device_, plan->scratch_bytes());
  expect_checked(*device_, [&] { plan->forward(*stream_, x.view, y.view); },
                 {{"x", &x.view}, {"y", &y.view}});
  expect_checked(*device_,
                 [&] { plan->backward(*stream_, x.view, dy.view, dx.view, scratch.view.data); },
                 {{"x", &x.view}, {"dy", &dy.view}, {"dx", &dx.view}, {"scratch", &scratch.view}});
  stream_->synchronize();
}

}  // namespace
}  // namespace lockstep
