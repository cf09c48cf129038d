// A stand-in for cuDNN: the class Cudnn with engines that are plain loops, as work of a stream. Its
// engines differ as real ones do: in workspace, order of sums, supported shapes and determinism.
//
//   EMULATOR_FAULTY_ENGINE   "eng0 wrong": its results are wrong; "eng0 error": its calls fail;
//                            "eng0 crash": its work leaves the sticky error of an illegal address
#include "src/device/cuda/cudnn.h"

#include <cudnn.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "src/base/check.h"
#include "tests/emulator/emulator.h"
#include "tests/emulator/libraries/convolution.h"

namespace lockstep::cuda {
namespace {

constexpr std::size_t kMostWorkspace = std::size_t{1} << 30;
constexpr std::uintptr_t kAlignment = 16, kWorkspaceAlignment = 256;

struct Engine {
  const char* name;
  Order order;
  std::size_t workspace;  ///< bytes, besides the sums of Order::split
  bool builds = true;
  bool tensor_cores = false;  ///< 16-bit types with multiples of 8 channels, or TF32
};

/// In the order of preference of the stand-in's heuristic.
constexpr Engine kEngines[] = {
    {.name = "eng1_k2=3", .order = Order::down, .workspace = 12345, .tensor_cores = true},
    {.name = "eng0", .order = Order::up, .workspace = 0},
    {.name = "eng4", .order = Order::up, .workspace = 0, .builds = false},
    {.name = "eng5_k6=1", .order = Order::up, .workspace = kMostWorkspace + 1},
    {.name = "eng2_k4=2", .order = Order::split, .workspace = 0},
    {.name = "eng3", .order = Order::random, .workspace = 300},
};

bool allows_tf32(const Convolution& c, Numerics numerics) { return numerics.tf32 || c.tf32; }

bool supports(const Engine& engine, const Convolution& c, Numerics numerics) {
  // Real engines fuse for some shapes only. All of these leave bias and ReLU of 3x3 filters with 3
  // channels to the caller.
  if ((c.bias || c.relu) && c.w[1] == 3 && c.w[3] == 3) return false;
  if (engine.order == Order::random && (numerics.deterministic || c.pass == Pass::forward))
    return false;
  if (!engine.tensor_cores) return true;
  if (c.type == Type::f32) return allows_tf32(c, numerics);
  return c.w[3] % 8 == 0 && c.w[0] % 8 == 0;
}

std::size_t workspace_of(const Engine& engine, const Convolution& c) {
  return engine.workspace + (engine.order == Order::split ? split_bytes(c) : 0);
}

/// Empty: the engine is sound.
std::string fault_of(const std::string& engine) {
  const char* const text = std::getenv("EMULATOR_FAULTY_ENGINE");
  const std::string setting = text != nullptr ? text : "";
  return setting.starts_with(engine + " ") ? setting.substr(engine.size() + 1) : "";
}

class EnginePlan final : public Plan {
 public:
  EnginePlan(const Convolution& work, const Engine& engine, Numerics numerics, bool device)
      : work_(work),
        engine_(engine),
        name_(fmt::format("cuDNN {}", engine.name)),
        fault_(fault_of(engine.name)),
        workspace_bytes_(workspace_of(engine, work)),
        rounds_(engine.tensor_cores && work.type == Type::f32 && allows_tf32(work, numerics)),
        device_(device) {}

  void run(Stream& stream, const Tensors& t, void* workspace) const override {
    expect(device_, "a plan for a device that this machine lacks");
    check(t, workspace);
    require(fault_ != "error", "cuDNN: {}: CUDNN_STATUS_EXECUTION_FAILED", name_);
    emulator::enqueue(name_ + " " + work_.text(), stream.cuda(), touches(t, workspace),
                      [work = work_, order = engine_.order, bytes = workspace_bytes_,
                       rounds = rounds_, fault = fault_, t, workspace] {
                        if (bytes > 0) std::memset(workspace, 0xff, bytes);  // NaN
                        convolve(work, order, rounds, fault == "wrong" ? 1.5f : 1.0f, t, workspace);
                        if (fault == "crash") emulator::set_sticky_error(cudaErrorIllegalAddress);
                        return true;
                      });
  }
  std::size_t workspace_bytes() const override { return workspace_bytes_; }
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
    if (workspace_bytes_ == 0) return;
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
    if (workspace_bytes_ > 0) all.push_back({workspace, workspace_bytes_, true});
    return all;
  }

  Convolution work_;
  Engine engine_;
  std::string name_, fault_;
  std::size_t workspace_bytes_;
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

}  // namespace

struct Cudnn::Body {
  Numerics numerics;
  std::string properties;  ///< empty: of the emulator's device
};

Cudnn::Cudnn(Numerics numerics, const std::string& properties)
    : body_(std::make_unique<Body>(numerics, properties)) {}

Cudnn::~Cudnn() = default;

Plans Cudnn::plans(const Convolution& work, std::size_t most) const {
  Plans result;
  if (work.layers > 1 || work.fp32_result) return result;
  require_valid(work);
  for (const Engine& engine : kEngines) {
    if (result.size() < most && engine.builds && supports(engine, work, body_->numerics) &&
        workspace_of(engine, work) <= kMostWorkspace) {
      result.push_back(
          std::make_shared<EnginePlan>(work, engine, body_->numerics, body_->properties.empty()));
    }
  }
  return result;
}

std::string Cudnn::version() const {
  return fmt::format("cuDNN {}.{}.{}", CUDNN_MAJOR, CUDNN_MINOR, CUDNN_PATCHLEVEL);
}

std::string Cudnn::properties() const {
  return body_->properties.empty() ? R"({"deviceName":"emulator"})" : body_->properties;
}

}  // namespace lockstep::cuda

extern "C" {

std::size_t cudnnGetVersion() { return CUDNN_VERSION; }
cudnnStatus_t cudnnGraphVersionCheck() { return CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnOpsVersionCheck() { return CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnCnnVersionCheck() { return CUDNN_STATUS_SUCCESS; }

}  // extern "C"
