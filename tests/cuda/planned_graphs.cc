// The graphs of all models, planned by cuDNN for GPUs that this machine lacks. Every graph has an
// engine, and a deterministic one. Planning needs
// neither a device nor a driver, because cuDNN accepts a device's properties as text. These tests
// do not prove that the kernels run, or that a real device offers the same engines.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "net/model.h"
#include "net/optimizer.h"
#include "src/device/cuda/layers.h"
#include "tests/support/expect_error.h"
#include "tests/support/wrapped_device.h"

namespace lockstep::cuda {
namespace {

/// From data sheets.
constexpr const char* kH200 =
    R"({"cudaDeviceId":0,"deviceVer":900,"maxGridSize":[2147483647,65535,65535],)"
    R"("maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"multiProcessorCount":132,"warpSize":32,)"
    R"("maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,)"
    R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxSharedMemoryPerSM":233472,)"
    R"("maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,)"
    R"("totalGlobalMem":150754820096,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,)"
    R"("smClockRateKHz":1980000,"memClockRateKHz":3201000,"l2CacheSize":62914560,)"
    R"("deviceName":"NVIDIA H200","driverVer":13000,"cudaDriverVersion":13000})";
constexpr const char* kA100 =
    R"({"cudaDeviceId":0,"deviceVer":800,"maxGridSize":[2147483647,65535,65535],)"
    R"("maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"multiProcessorCount":108,"warpSize":32,)"
    R"("maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":166912,)"
    R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxSharedMemoryPerSM":167936,)"
    R"("maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,)"
    R"("totalGlobalMem":85899345920,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,)"
    R"("smClockRateKHz":1410000,"memClockRateKHz":1593000,"l2CacheSize":41943040,)"
    R"("deviceName":"NVIDIA A100-SXM4-80GB","driverVer":13000,"cudaDriverVersion":13000})";

/// Plans like the GPU's back end, but computes nothing.
class PlanningDevice : public WrappedDevice {
 public:
  explicit PlanningDevice(const Library& library) : libraries{&library} {
    traits_ = {.description = "paper",
               .memory_is_host = false,
               .batches_products = true,
               .lanes = kLanes,
               .run_ahead = 4};
  }

  std::string arithmetic(Type) const override { return "paper"; }
  Memory allocate(std::size_t bytes, Place) override {
    return Memory(new std::byte[bytes], [](std::byte* data) { delete[] data; });  // never touched
  }
  void copy(Stream&, void*, const void*, std::size_t) override {}
  std::unique_ptr<Graph> capture(Stream&, const std::function<void()>&) override { return nullptr; }

  std::unique_ptr<AffinePlan> convolution(const ConvolutionSpec& spec) override {
    ++affine_plans;
    return make_convolution(libraries, spec);
  }
  std::unique_ptr<AffinePlan> dense(const DenseSpec& spec) override {
    ++affine_plans;
    return make_dense(libraries, spec);
  }
  std::unique_ptr<ResponseNormPlan> response_norm(const ResponseNormSpec& spec) override {
    return make_response_norm(spec);
  }
  std::unique_ptr<ProductPlan> product(const ProductSpec& spec) override {
    return make_product(libraries, spec);
  }

  Libraries libraries;
  int affine_plans = 0;
};

struct Gpu {
  const char* name;
  const char* properties;
};
void PrintTo(const Gpu& gpu, std::ostream* out) { *out << gpu.name; }

class PlannedGraphs : public testing::TestWithParam<Gpu> {};

/// 32 photos are planned at most, because their activations take memory of this machine.
bool is_for_photos(const ModelEntry& entry) { return entry.sample[1] > 64; }

void expect_planned(const Library& library, const ModelEntry& entry, Type type, std::int64_t batch,
                    std::int64_t classes = 10, bool training = true) {
  if (is_for_photos(entry)) batch = std::min<std::int64_t>(batch, 32);
  SCOPED_TRACE(testing::Message() << entry.name << ", " << name_of(type) << ", batch " << batch);
  PlanningDevice device(library);
  EXPECT_NO_THROW(Model(device, entry, entry.sample.with_batch(batch), classes, type, training));
  EXPECT_GT(device.affine_plans, 0);
}

TEST_P(PlannedGraphs, EveryGraphOfEveryModelHasAnEngine) {
  const auto library = make_cudnn({}, GetParam().properties);
  for (const ModelEntry& entry : models()) {
    for (const Type type : {Type::f32, Type::bf16}) {
      expect_planned(*library, entry, type, 128);
      if (!is_for_photos(entry)) expect_planned(*library, entry, type, 33);
    }
  }
}

TEST_P(PlannedGraphs, EvaluationHasEngines) {
  const auto library = make_cudnn({}, GetParam().properties);
  for (const ModelEntry& entry : models()) {
    for (const Type type : {Type::f32, Type::bf16}) {
      expect_planned(*library, entry, type, 100, 46, /*training=*/false);
      if (!is_for_photos(entry)) expect_planned(*library, entry, type, 1000, 46, false);
    }
  }
}

TEST_P(PlannedGraphs, MuonHasEngines) {
  const auto library = make_cudnn({}, GetParam().properties);
  for (const ModelEntry& entry : models()) {
    SCOPED_TRACE(entry.name);
    PlanningDevice device(*library);
    const Model model(device, entry, entry.sample.with_batch(32), 10, Type::bf16,
                      /*training=*/true);
    EXPECT_NO_THROW(make_optimizer("muon", {})->plan(device, model.layout()));
  }
}

TEST_P(PlannedGraphs, EveryGraphHasADeterministicEngine) {
  const auto library = make_cudnn({.deterministic = true}, GetParam().properties);
  const auto tf32 = make_cudnn({.deterministic = true, .tf32 = true}, GetParam().properties);
  for (const ModelEntry& entry : models()) {
    for (const Type type : {Type::f32, Type::bf16}) expect_planned(*library, entry, type, 128);
    expect_planned(*tf32, entry, Type::f32, 128);
  }
}

INSTANTIATE_TEST_SUITE_P(Gpus, PlannedGraphs,
                         testing::Values(Gpu{"H200", kH200}, Gpu{"A100", kA100}),
                         [](const auto& info) { return info.param.name; });

TEST(Planning, InvalidPropertiesAreRefused) {
  expect_error({"properties"}, [] { make_cudnn({}, "no JSON"); });
}

}  // namespace
}  // namespace lockstep::cuda
