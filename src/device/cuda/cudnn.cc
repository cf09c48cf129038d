#include <cudnn_frontend.h>

#include <unordered_map>

#include "src/base/check.h"
#include "src/device/cuda/plan.h"

namespace lockstep::cuda {
namespace {

// cuDNN describes work as a graph of operations. For each it lists engines by its heuristic, the
// fastest first. Engines that this device or these numerics do not allow are removed. The first one
// of the rest that can be built is the plan.
namespace fe = cudnn_frontend;
namespace graph = cudnn_frontend::graph;

/// Bytes. An engine that needs more would take the memory of a larger batch.
constexpr std::int64_t kMostWorkspace = std::int64_t{1} << 30;

/// Names of the tensors within a graph.
enum Uid : std::int64_t { kX = 1, kW, kB, kY };

std::string version_text() {
  const std::size_t version = cudnnGetVersion();
  return fmt::format("cuDNN {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

void require_good(fe::error_t status, const char* what) {
  require(status.is_good(), "{}: {}: {}", version_text(), what, status.get_message());
}

fe::DataType_t data_type(Type type) {
  return type == Type::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::FLOAT;
}

/// cuDNN's extents are N, C, H, W; the strides define their order in memory.
graph::Tensor_attributes tensor(Uid uid, Type type, Shape s) {
  return graph::Tensor_attributes()
      .set_uid(uid)
      .set_data_type(data_type(type))
      .set_dim({s[0], s[3], s[1], s[2]})
      .set_stride({s.row(), 1, s[2] * s[3], s[3]});
}

void set_output(graph::Tensor_attributes& result, Uid uid, Type type, Shape shape) {
  const graph::Tensor_attributes wanted = tensor(uid, type, shape);
  result.set_output(true)
      .set_uid(uid)
      .set_data_type(data_type(type))
      .set_dim(wanted.get_dim())
      .set_stride(wanted.get_stride());
}

template <class Attributes>
Attributes geometry(const Convolution& c) {
  return Attributes()
      .set_padding({c.pad[0], c.pad[1]})
      .set_stride({c.stride[0], c.stride[1]})
      .set_dilation({c.dilation[0], c.dilation[1]});
}

void describe(graph::Graph& g, const Convolution& c) {
  g.set_io_data_type(data_type(c.type))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  const auto input = [&](Uid uid, Shape shape) { return g.tensor(tensor(uid, c.type, shape)); };
  if (c.pass == Pass::backward_data) {
    const auto dx =
        g.conv_dgrad(input(kY, c.y), input(kW, c.w), geometry<graph::Conv_dgrad_attributes>(c));
    return set_output(*dx, kX, c.type, c.x);
  }
  if (c.pass == Pass::backward_weights) {
    const auto dw =
        g.conv_wgrad(input(kY, c.y), input(kX, c.x), geometry<graph::Conv_wgrad_attributes>(c));
    return set_output(*dw, kW, c.type, c.w);
  }
  auto y = g.conv_fprop(input(kX, c.x), input(kW, c.w), geometry<graph::Conv_fprop_attributes>(c));
  const auto then = [](fe::PointwiseMode_t mode) {
    return graph::Pointwise_attributes().set_mode(mode);
  };
  if (c.bias) y = g.pointwise(y, input(kB, {1, 1, 1, c.w[0]}), then(fe::PointwiseMode_t::ADD));
  if (c.relu) y = g.pointwise(y, then(fe::PointwiseMode_t::RELU_FWD));
  set_output(*y, kY, c.type, c.y);
}

// Some engines are faster because they round inputs or sums to fewer bits. Without an option that
// permits it, fp32 means fp32, and sums of bf16 products are fp32.
std::vector<fe::NumericalNote_t> unwanted(Numerics numerics, const Convolution& c) {
  using Note = fe::NumericalNote_t;
  std::vector<Note> notes;
  if (numerics.deterministic) notes.push_back(Note::NONDETERMINISTIC);
  notes.push_back(c.type == Type::f32 ? Note::DOWN_CONVERT_INPUTS
                                      : Note::REDUCED_PRECISION_REDUCTION);
  if (c.type == Type::f32 && !numerics.tf32 && !c.tf32) notes.push_back(Note::TENSOR_CORE);
  return notes;
}

std::string name_of_plan(const graph::Graph& g, std::int64_t index) {
  std::string name;
  require_good(g.get_plan_name_at_index(index, name), "the name of a plan");
  return "cuDNN " + name;
}

class FoundPlan final : public Plan {
 public:
  FoundPlan(cudnnHandle_t handle, std::unique_ptr<graph::Graph> g, std::int64_t index)
      : handle_(handle), graph_(std::move(g)), index_(index), name_(name_of_plan(*graph_, index)) {
    std::int64_t bytes = 0;
    require_good(graph_->get_workspace_size_plan_at_index(index, bytes), name_.c_str());
    workspace_bytes_ = static_cast<std::size_t>(bytes);
  }

  void run(Stream& stream, const Tensors& t, void* workspace) const override {
    expect(handle_ != nullptr, "a plan for a device that this machine lacks");
    std::unordered_map<std::int64_t, void*> places{{kX, t.x}, {kW, t.w}, {kB, t.b}, {kY, t.y}};
    require(cudnnSetStream(handle_, stream.cuda()) == CUDNN_STATUS_SUCCESS,
            "cudnnSetStream failed");
    require_good(graph_->execute_plan_at_index(handle_, places, workspace, index_), name_.c_str());
  }
  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  const std::string& name() const override { return name_; }

 private:
  cudnnHandle_t handle_;
  std::unique_ptr<graph::Graph> graph_;
  std::int64_t index_;
  std::string name_;
  std::size_t workspace_bytes_ = 0;
};

class Cudnn final : public Library {
 public:
  Cudnn(Numerics numerics, const std::string& properties) : numerics_(numerics) {
    if (properties.empty()) {
      const cudnnStatus_t status = cudnnCreate(&handle_);
      require(status == CUDNN_STATUS_SUCCESS, "{} does not start: {}", version_text(),
              cudnnGetErrorString(status));
    } else {
      require_good(properties_->deserialize({properties.begin(), properties.end()}),
                   "properties of the device");
    }
  }
  ~Cudnn() override {
    if (handle_ != nullptr) cudnnDestroy(handle_);
  }

  std::shared_ptr<const Plan> plan(const Convolution& c) const override {
    if (c.layers > 1 || c.fp32_result) return nullptr;
    auto g = std::make_unique<graph::Graph>();
    describe(*g, c);
    if (handle_ == nullptr) g->set_device_properties(properties_);
    require_good(g->validate(), c.text().c_str());
    // From here on a failure only means that cuDNN has no engine for this work. Another library may
    // have one.
    if (g->build_operation_graph(handle_).is_bad()) return nullptr;
    if (g->create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}).is_bad())
      return nullptr;
    g->deselect_numeric_notes(unwanted(numerics_, c));
    g->deselect_behavior_notes({fe::BehaviorNote_t::RUNTIME_COMPILATION});
    g->deselect_workspace_greater_than(kMostWorkspace);
    const std::int64_t count = g->get_execution_plan_count();
    for (std::int64_t i = 0; i < count; ++i) {
      if (g->build_plan_at_index(i).is_good())
        return std::make_shared<FoundPlan>(handle_, std::move(g), i);
    }
    return nullptr;
  }

 private:
  Numerics numerics_;
  cudnnHandle_t handle_ = nullptr;  ///< null: plans for a device that this machine lacks
  /// Empty if there is a handle.
  std::shared_ptr<fe::DeviceProperties> properties_ = std::make_shared<fe::DeviceProperties>();
};

}  // namespace

std::unique_ptr<Library> make_cudnn(Numerics numerics, const std::string& properties) {
  return std::make_unique<Cudnn>(numerics, properties);
}

}  // namespace lockstep::cuda
