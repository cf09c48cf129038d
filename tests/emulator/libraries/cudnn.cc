// A stand-in for cuDNN: make_cudnn() with engines that are plain loops, as work of a stream. Its
// engines differ as real ones do: in workspace, order of sums and supported shapes.
#include <cudnn.h>

#include <cstring>
#include <vector>

#include "src/base/check.h"
#include "tests/emulator/emulator.h"
#include "tests/emulator/libraries/convolution.h"

namespace lockstep::cuda {
namespace {

constexpr std::uintptr_t kAlignment = 16, kWorkspaceAlignment = 256;

struct Engine {
  const char* name;
  Order order;
  std::size_t workspace;      ///< bytes
  bool tensor_cores = false;  ///< 16-bit types with multiples of 8 channels, or TF32
};

/// In the order of preference of the stand-in's heuristic.
constexpr Engine kEngines[] = {
    {.name = "eng1_k2=3", .order = Order::down, .workspace = 12345, .tensor_cores = true},
    {.name = "eng0", .order = Order::up, .workspace = 0},
};

bool allows_tf32(const Convolution& c, Numerics numerics) { return numerics.tf32 || c.tf32; }

bool supports(const Engine& engine, const Convolution& c, Numerics numerics) {
  // Real engines fuse for some shapes only. All of these leave bias and ReLU of 3x3 filters with 3
  // channels to the caller.
  if ((c.bias || c.relu) && c.w[1] == 3 && c.w[3] == 3) return false;
  if (!engine.tensor_cores) return true;
  if (c.type == Type::f32) return allows_tf32(c, numerics);
  return c.w[3] % 8 == 0 && c.w[0] % 8 == 0;
}

class EnginePlan final : public Plan {
 public:
  EnginePlan(const Convolution& work, const Engine& engine, Numerics numerics, bool device)
      : work_(work),
        engine_(engine),
        name_(fmt::format("cuDNN {}", engine.name)),
        rounds_(engine.tensor_cores && work.type == Type::f32 && allows_tf32(work, numerics)),
        device_(device) {}

  void run(Stream& stream, const Tensors& t, void* workspace) const override {
    expect(device_, "a plan for a device that this machine lacks");
    check(t, workspace);
    emulator::enqueue(name_ + " " + work_.text(), stream.cuda(), touches(t, workspace),
                      [work = work_, engine = engine_, rounds = rounds_, t, workspace] {
                        if (engine.workspace > 0)
                          std::memset(workspace, 0xff, engine.workspace);  // NaN
                        convolve(work, engine.order, rounds, t);
                        return true;
                      });
  }
  std::size_t workspace_bytes() const override { return engine_.workspace; }
  const std::string& name() const override { return name_; }

 private:
  void check(const Tensors& t, const void* workspace) const {
    const auto rule = [&](bool kept, const char* what) {
      if (kept) return;
      emulator::report(fmt::format("cuDNN: {}", what), work_.text());
      fail("cuDNN: {}: CUDNN_STATUS_BAD_PARAM: {}", name_, what);
    };
    const auto aligned = [](const void* data, std::uintptr_t bytes) {
      return reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
    };
    for (const void* data : {t.x, t.w, t.y, work_.bias ? t.b : t.x}) {
      rule(data != nullptr, "a tensor is null");
      rule(aligned(data, kAlignment), "a tensor is not aligned to 16 bytes");
    }
    if (engine_.workspace == 0) return;
    rule(workspace != nullptr, "the workspace is null");
    rule(aligned(workspace, kWorkspaceAlignment), "the workspace is not aligned to 256 bytes");
  }

  std::vector<emulator::Touch> touches(const Tensors& t, const void* workspace) const {
    const auto tensor = [&](const void* data, const Shape& shape, Pass writer) {
      const auto bytes = static_cast<std::size_t>(shape.count()) * size_of(work_.type);
      return emulator::Touch{data, bytes, work_.pass == writer};
    };
    std::vector<emulator::Touch> all{tensor(t.x, work_.x, Pass::backward_data),
                                     tensor(t.w, work_.w, Pass::backward_weights),
                                     tensor(t.y, work_.y, Pass::forward)};
    if (work_.bias) all.push_back(tensor(t.b, {work_.w[0]}, Pass::backward_data));
    if (engine_.workspace > 0) all.push_back({workspace, engine_.workspace, true});
    return all;
  }

  Convolution work_;
  Engine engine_;
  std::string name_;
  bool rounds_;  ///< inputs, to TF32
  bool device_;
};

/// As cuDNN's own validation of a graph.
void require_valid(const Convolution& c) {
  bool valid = c.x[0] == c.y[0] && c.w[0] == c.y[3] && c.w[3] > 0 && c.x[3] % c.w[3] == 0 &&
               c.w[0] % (c.x[3] / c.w[3]) == 0;
  for (int i = 0; i < 2; ++i) {
    const std::int64_t window = (c.w[i + 1] - 1) * c.dilation[i] + 1;
    valid = valid && c.y[i + 1] == (c.x[i + 1] + 2 * c.pad[i] - window) / c.stride[i] + 1;
  }
  require(valid && (c.pass == Pass::forward || !(c.bias || c.relu)),
          "cuDNN: {}: CUDNN_STATUS_BAD_PARAM: the shapes do not fit", c.text());
}

class StandIn final : public Library {
 public:
  StandIn(Numerics numerics, bool device) : numerics_(numerics), device_(device) {}

  std::shared_ptr<const Plan> plan(const Convolution& work) const override {
    if (work.layers > 1 || work.fp32_result) return nullptr;
    require_valid(work);
    for (const Engine& engine : kEngines) {
      if (supports(engine, work, numerics_))
        return std::make_shared<EnginePlan>(work, engine, numerics_, device_);
    }
    return nullptr;
  }

 private:
  Numerics numerics_;
  bool device_;
};

}  // namespace

std::unique_ptr<Library> make_cudnn(Numerics numerics, const std::string& properties) {
  return std::make_unique<StandIn>(numerics, properties.empty());
}

}  // namespace lockstep::cuda

extern "C" {

std::size_t cudnnGetVersion() { return CUDNN_VERSION; }
cudnnStatus_t cudnnGraphVersionCheck() { return CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnOpsVersionCheck() { return CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnCnnVersionCheck() { return CUDNN_STATUS_SUCCESS; }

}  // extern "C"
