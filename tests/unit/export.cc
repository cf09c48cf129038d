// Exported files: every model and every kind of layer has an ONNX form whose graph is complete, and
// safetensors files give all weights back. tests/apps/export.sh compares numbers with onnxruntime.
#include "net/export/export.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "net/initial_weights.h"
#include "onnx.pb.h"
#include "src/base/table.h"
#include "tests/support/error_of.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"
#include "tests/unit/layer_cases.h"

namespace lockstep {
namespace {

SampleFormat values_of(Shape sample) {
  return {.size = {.height = sample[1], .width = sample[2], .channels = sample[3]}};
}

/// Parameters are random, and variances are positive.
TrainedNetwork network_of(const Model& model, const std::string& name, const SampleFormat& format) {
  TrainedNetwork network{name, model.layout(), model.layers(),
                         std::vector<float>(model.layout().count), format};
  Random random(7, Purpose::initialize, 0, 0);
  for (const Parameter& parameter : network.layout.parameters) {
    const bool positive = parameter.name.ends_with("/variance");
    for (std::int64_t i = 0; i < parameter.range.count; ++i)
      network.parameters[parameter.range.begin + i] = random.uniform(positive ? 0.5f : -1.0f, 1.5f);
  }
  return network;
}

TrainedNetwork network_of(const ModelEntry& entry) {
  const auto device = make_cpu_device(1);
  const Model model(*device, entry, entry.sample, 10, Type::f32, /*training=*/false);
  SampleFormat format{.kind = SampleFormat::Kind::words, .size = {1, entry.sample[1], 1}};
  if (!entry.words) {
    format = values_of(entry.sample);
    format.kind = SampleFormat::Kind::images;
  }
  return network_of(model, std::string(entry.name), format);
}

onnx::Model parsed(const std::string& bytes) {
  onnx::Model model;
  EXPECT_TRUE(model.ParseFromString(bytes));
  return model;
}

/// Each name is defined once, and before it is read.
void expect_complete(const onnx::Graph& graph) {
  std::set<std::string> known{graph.input(0).name()};
  for (const onnx::Tensor& tensor : graph.initializer()) {
    EXPECT_TRUE(known.insert(tensor.name()).second) << tensor.name();
    std::size_t bytes = tensor.data_type() == onnx::Tensor::FLOAT ? 4 : 8;
    for (const std::int64_t extent : tensor.dims()) bytes *= extent;
    EXPECT_EQ(tensor.raw_data().size(), bytes) << tensor.name();
  }
  for (const onnx::Node& node : graph.node()) {
    for (const std::string& input : node.input())
      EXPECT_TRUE(known.contains(input)) << node.name() << " reads " << input;
    EXPECT_TRUE(known.insert(node.output(0)).second) << node.output(0);
  }
  EXPECT_TRUE(known.contains(graph.output(0).name()));
}

TEST(Export, EveryModelBecomesACompleteGraphWithAllItsWeights) {
  for (const ModelEntry& entry : models()) {
    const TrainedNetwork network = network_of(entry);
    const onnx::Model model = parsed(onnx_file(network, {.batch = 3, .opset = 18}));
    expect_complete(model.graph());
    EXPECT_EQ(model.opset_import(0).version(), 18);
    const onnx::TensorShape& in = model.graph().input(0).type().tensor_type().shape();
    EXPECT_EQ(in.dim(0).dim_value(), 3);
    EXPECT_EQ(in.dim(1).dim_value(), entry.words ? entry.sample[1] : entry.sample[3]);
    std::int64_t weights = 0, numbers = 0;
    for (const Parameter& parameter : network.layout.parameters) weights += parameter.shape.count();
    for (const onnx::Tensor& tensor : model.graph().initializer())
      if (tensor.data_type() == onnx::Tensor::FLOAT) numbers += tensor.raw_data().size() / 4;
    EXPECT_GE(numbers, weights) << entry.name;
    EXPECT_LT(numbers, weights + 250000) << entry.name;
  }
}

TEST(Export, WithoutABatchSizeTheFileTakesAny) {
  const onnx::Model model = parsed(onnx_file(network_of(find(models(), "resnet20")), {}));
  for (const onnx::Value& value : {model.graph().input(0), model.graph().output(0)})
    EXPECT_EQ(value.type().tensor_type().shape().dim(0).dim_param(), "batch");
}

TEST(Export, SafetensorsGiveAllWeightsBack) {
  TemporaryDirectory folder;
  const std::filesystem::path file = folder.path() / "network.safetensors";
  for (const char* name : {"resnet_small", "reuters", "convnext_tiny"}) {
    TrainedNetwork network = network_of(find(models(), name));
    network.metadata["class_names"] = "[\"\xff\"]";  // no UTF-8
    std::ofstream(file, std::ios::binary) << safetensors_file(network);
    std::vector<float> loaded(network.layout.count), wanted(network.layout.count);
    for (const Parameter& p : network.layout.parameters)
      std::copy_n(&network.parameters[p.range.begin], p.range.count, &wanted[p.range.begin]);
    const auto lines = load_initial_weights(file, network.layout, loaded.data());
    EXPECT_EQ(loaded, wanted) << name;
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_TRUE(mentions(lines[0], {std::to_string(network.layout.parameters.size())}));
  }
}

class OwnLayer : public Layer {
 public:
  Shape setup(Setup&, Shape in) override { return in; }
  void forward(LayerCall&, View, View) override {}
  void backward(LayerCall&, View, View, View, View) override {}
  std::string implementation() const override { return "own_kind"; }
};

const LayerCase* current = nullptr;  ///< that build() makes

NamedLayers build(Shape, int) {
  NamedLayers layers;
  layers.emplace_back("layer", current == nullptr ? std::make_unique<OwnLayer>() : current->make());
  layers.emplace_back("flatten", flatten());
  return layers;
}

ModelEntry entry_of(const LayerCase* c, Shape sample) {
  current = c;
  return {"one_layer", "", sample.with_batch(1), /*any_image=*/false, build};
}

TEST(Export, AnUnknownKindOfLayerIsNamed) {
  const TrainedNetwork network = network_of(entry_of(nullptr, {1, 4, 4, 3}));
  expect_error({"own_kind", "safetensors"}, [&] { onnx_file(network, {}); });
}

/// Every case of the sweep over all layers whose samples are images. tests/apps/export.sh sets the
/// folder to compare them with onnxruntime: NAME.onnx, NAME.x and NAME.y of fp32.
TEST(Export, EveryKindOfLayerBecomesAGraph) {
  const char* const folder = std::getenv("EXPORT_DIRECTORY");
  const auto device = make_cpu_device(1);
  std::set<std::string> kinds;
  for (const LayerCase& c : cases()) {
    if (c.x.rank() != 4) continue;
    Model model(*device, entry_of(&c, c.x), c.x, 1, Type::f32, false);
    const TrainedNetwork network = network_of(model, c.name, values_of(c.x));
    for (const LayerSummary& layer : network.layers) kinds.insert(layer.kind);
    const std::string bytes = onnx_file(network, {});
    expect_complete(parsed(bytes).graph());
    if (folder == nullptr) continue;
    std::vector<float> parameters = network.parameters, x(c.x.count()), first(c.x.count());
    Random random(8, Purpose::initialize, 0, 0);
    for (float& value : x) value = random.uniform(-2.0f, 2.0f);
    model.bind(parameters.data(), nullptr);
    const auto stream = device->stream();
    const View y = model.forward(*stream, {x.data(), c.x, Type::f32});
    stream->synchronize();
    const std::int64_t pixels = c.x[1] * c.x[2], channels = c.x[3];
    for (std::int64_t i = 0; i < c.x.count(); ++i) {
      const std::int64_t channel = i % channels, pixel = i / channels % pixels,
                         sample = i / channels / pixels;
      first[(sample * channels + channel) * pixels + pixel] = x[i];
    }
    const auto write = [&](const char* suffix, const void* data, std::size_t size) {
      std::ofstream(std::string(folder) + "/" + c.name + suffix, std::ios::binary)
          .write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
    };
    write(".onnx", bytes.data(), bytes.size());
    write(".x", first.data(), first.size() * sizeof(float));
    write(".y", y.data, y.bytes());
  }
  EXPECT_GE(kinds.size(), 20u);
}

}  // namespace
}  // namespace lockstep
