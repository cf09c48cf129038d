// Weights of a PyTorch module begin a run: names, the order of channels, other classes.
#include "net/initial_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "net/description/network_file.h"
#include "net/model.h"
#include "net/pytorch_names.h"
#include "src/base/table.h"
#include "src/base/text.h"
#include "src/files/tensor_file.h"
#include "tests/support/error_of.h"
#include "tests/support/files.h"
#include "tests/support/initial_weights.h"
#include "tests/support/pattern.h"
#include "tests/support/pytorch_file.h"
#include "tests/support/safetensors.h"

namespace lockstep {
namespace {

Layout layout_of(int classes, const ModelEntry& entry) {
  const auto device = make_cpu_device(1);
  return Model(*device, entry, {1, 32, 32, 3}, classes, Type::f32, true).layout();
}

/// resnet18 with a tenth of its channels.
Layout thin(int classes) {
  const std::string file = "apps/networks/resnet18.toml",
                    text = contents(std::filesystem::path(SOURCE_DIR) / file);
  return layout_of(classes,
                   network_entry("thin", replaced(text, "(filters = \\d+)\\d", "$1"), file));
}

/// A file with the parameters of a layout as PyTorch stores them, by an independent loop.
struct ModuleFile {
  std::map<std::string, std::pair<std::string, std::string>> tensors;  ///< shape and bytes by name

  ModuleFile(const Layout& layout, const std::vector<float>& values) {
    for (const Parameter& parameter : layout.parameters) {
      const Shape s = parameter.shape;
      const float* from = &values[parameter.range.begin];
      std::string bytes(s.count() * sizeof(float), '\0');
      auto* to = reinterpret_cast<float*>(bytes.data());
      std::string shape = std::to_string(s[0]);
      if (s.rank() == 4) {
        shape = fmt::format("{},{},{},{}", s[0], s[3], s[1], s[2]);
        for (std::int64_t f = 0; f < s[0]; ++f)
          for (std::int64_t y = 0; y < s[1]; ++y)
            for (std::int64_t x = 0; x < s[2]; ++x)
              for (std::int64_t c = 0; c < s[3]; ++c)
                to[((f * s[3] + c) * s[1] + y) * s[2] + x] =
                    from[((f * s[1] + y) * s[2] + x) * s[3] + c];
      } else {
        for (int axis = 1; axis < s.rank(); ++axis) shape += fmt::format(",{}", s[axis]);
        std::copy_n(from, s.count(), to);
      }
      tensors[pytorch_name(parameter.name)] = {shape, bytes};
    }
    tensors["bn1.num_batches_tracked"] = {"1", std::string(4, '\0')};
  }

  void write(const std::filesystem::path& file, const std::string& prefix = "") const {
    std::string header = "{", numbers;
    for (const auto& [name, tensor] : tensors) {
      const std::size_t begin = numbers.size();
      numbers += tensor.second;
      header += fmt::format(R"({}"{}{}":{{"dtype":"F32","shape":[{}],"data_offsets":[{},{}]}})",
                            header.size() > 1 ? "," : "", prefix, name, tensor.first, begin,
                            numbers.size());
    }
    write_safetensors_text(file, header + "}", numbers);
  }
};

/// The object that torch.save() writes for a module, and its storages.
std::pair<std::string, std::vector<std::string>> pickled_module(const ModuleFile& module) {
  std::vector<std::string> entries, storages;
  for (const auto& [name, tensor] : module.tensors) {
    std::vector<std::int32_t> shape, strides;
    for (const std::string& extent : split(tensor.first, ',')) shape.push_back(std::stoi(extent));
    for (const std::int64_t stride : row_major({shape.begin(), shape.end()}))
      strides.push_back(static_cast<std::int32_t>(stride));
    entries.push_back(pickled::text("module." + name));
    entries.push_back(pickled::tensor(
        pickled::storage("FloatStorage", std::to_string(storages.size()),
                         static_cast<std::int32_t>(tensor.second.size() / sizeof(float))),
        0, shape, strides));
    storages.push_back(tensor.second);
  }
  return {pickled::dict(entries), storages};
}

class InitialWeights : public testing::Test {
 protected:
  std::vector<std::string> load(const Layout& layout, std::vector<float>& to) {
    return load_initial_weights(file_, layout, to.data());
  }
  std::string error_of_load() {
    std::vector<float> untouched(layout_.count, 3);
    const std::string error = error_of([&] { load(layout_, untouched); });
    EXPECT_EQ(untouched, std::vector<float>(layout_.count, 3));
    return error;
  }

  TemporaryDirectory folder_;
  std::filesystem::path file_ = folder_.path() / "module.safetensors";
  Layout layout_ = thin(10);
  std::vector<float> values_ = initial_weights("thin", layout_);
};

TEST_F(InitialWeights, NamesAreThoseOfTorchvision) {
  std::set<std::string> names;
  for (const Parameter& parameter : layout_of(10, find(models(), "resnet50")).parameters)
    names.insert(pytorch_name(parameter.name));
  EXPECT_EQ(names.size(), 267u) << "161 trained arrays, and mean and variance of 53 norms";
  for (const char* name : {"conv1.weight", "bn1.weight", "bn1.bias", "bn1.running_mean",
                           "bn1.running_var", "layer1.0.conv1.weight",
                           "layer1.0.downsample.0.weight", "layer1.0.downsample.1.running_var",
                           "layer4.2.conv3.weight", "layer4.2.bn3.bias", "fc.weight", "fc.bias"})
    EXPECT_TRUE(names.contains(name)) << name;
}

TEST_F(InitialWeights, NamesOfLayersWithoutAModuleOfTheirOwn) {
  const auto names_of = [](const char* model) {
    std::set<std::string> names;
    for (const Parameter& parameter : layout_of(10, find(models(), model)).parameters)
      names.insert(pytorch_name(parameter.name));
    return names;
  };
  const auto mobile = names_of("mobilenet_v3_large"), convnext = names_of("convnext_tiny"),
             vit = names_of("vit_b_16");
  EXPECT_EQ(mobile.size(), 266u);
  EXPECT_TRUE(mobile.contains("features.4.block.2.fc1.bias"));
  EXPECT_EQ(convnext.size(), 182u);
  EXPECT_TRUE(convnext.contains("features.1.0.layer_scale"));
  EXPECT_EQ(vit.size(), 152u);
  for (const char* name : {"class_token", "encoder.pos_embedding",
                           "encoder.layers.encoder_layer_11.self_attention.in_proj_bias"})
    EXPECT_TRUE(vit.contains(name)) << name;
}

TEST_F(InitialWeights, TakeEveryNumberToItsPlace) {
  for (const char* prefix : {"", "module.", "_orig_mod.module.", "model.backbone._orig_mod."}) {
    ModuleFile(layout_, values_).write(file_, prefix);
    std::vector<float> loaded(layout_.count);
    const std::vector<std::string> lines = load(layout_, loaded);
    EXPECT_EQ(loaded, values_);
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_TRUE(mentions(lines[0], {std::to_string(layout_.parameters.size())}));
  }
}

TEST_F(InitialWeights, OfPytorchAreTheSame) {
  const auto [state, storages] = pickled_module(ModuleFile(layout_, values_));
  const std::string checkpoint = pickled::dict({pickled::text("model"), state});
  for (const std::string& bytes :
       {pickled::new_file(checkpoint, storages),
        pickled::old_file(state, storages, std::vector<std::int64_t>(storages.size(), 4))}) {
    file_ = folder_ / "module.pth";
    put(file_, bytes);
    std::vector<float> loaded(layout_.count);
    ASSERT_EQ(load(layout_, loaded).size(), 1u);
    EXPECT_EQ(loaded, values_);
    EXPECT_EQ(initial_metadata(file_).texts.at("class_names"), "");
    put(file_, bytes.substr(0, bytes.size() - 5));
    EXPECT_TRUE(mentions(error_of_load(), {"module.pth", "damaged"}));
  }
}

TEST_F(InitialWeights, ACompiledPartHasItsPrefixWithin) {
  ModuleFile module(layout_, values_);
  const auto plain = std::exchange(module.tensors, {});
  for (const auto& [name, tensor] : plain) {
    const bool compiled = name.starts_with("layer2.");
    module.tensors[compiled ? "layer2._orig_mod." + name.substr(7) : name] = tensor;
  }
  module.write(file_, "model.");
  std::vector<float> loaded(layout_.count);
  EXPECT_EQ(load(layout_, loaded).size(), 1u);
  EXPECT_EQ(loaded, values_);
  module.tensors["layer2.0.conv1.weight"] = plain.at("layer2.0.conv1.weight");
  module.write(file_, "model.");
  EXPECT_TRUE(mentions(error_of_load(), {"another", "layer2._orig_mod.0.conv1.weight"}));
}

TEST_F(InitialWeights, OfSeveralNetworksTheOneInFrontIsTaken) {
  ModuleFile module(layout_, values_);
  const auto plain = module.tensors;
  for (const auto& [name, tensor] : plain)
    module.tensors["model." + name] = {tensor.first, std::string(tensor.second.size(), '\1')};
  for (const auto& [name, tensor] : plain)  // and part of a name is no prefix
    module.tensors["decoder." + name] = {tensor.first, std::string(tensor.second.size(), '\2')};
  module.write(file_);
  std::vector<float> loaded(layout_.count);
  load(layout_, loaded);
  EXPECT_EQ(loaded, values_);
}

TEST_F(InitialWeights, NamesOfParametersDiffer) {
  const auto check = [](const std::vector<std::string>& names) {
    std::vector<Parameter> parameters;
    for (const std::string& name : names) parameters.emplace_back().name = name;
    require_own_names(parameters);
  };
  const std::vector<std::string> refused[] = {
      {"a/b/weights", "a.b/weights"},           {"a/gamma", "a/weights"},
      {"a/weights", "a.weight/values"},         {"x/in_proj/weights", "x.in_proj_weight/values"},
      {"a/weights", "a/weights/weights"},       {"a/weights/weights", "b/weights", "a/weights"},
      {"a.weight/values", "a/weight/x/biases"}, {"token/values", "token/b/weights"}};
  for (const auto& names : refused)
    EXPECT_TRUE(mentions(error_of([&] { check(names); }), {names.front(), names.back()}));
  const std::vector<std::string> accepted[] = {{"a_b/weights", "a/b/weights", "ab/weights"},
                                               {"a/weights", "a/biases", "a-b/weights"},
                                               {"a/weights", "A/weights"},
                                               {"a/values", "a2/values"}};
  for (const auto& names : accepted) EXPECT_NO_THROW(check(names)) << names.front();
}

TEST_F(InitialWeights, OtherClassesBeginANewLastLayer) {
  ModuleFile(layout_, values_).write(file_);
  const Layout fewer = thin(3);
  std::vector<float> loaded(fewer.count, 5);
  const std::vector<std::string> lines = load(fewer, loaded);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(mentions(lines[0], {"fc/weights", "fc/biases"}));
  EXPECT_TRUE(mentions(lines[1], {"fc.weight", "fc.bias"}));
  for (std::size_t i = 0; i < fewer.parameters.size(); ++i) {
    const Parameter &now = fewer.parameters[i], &before = layout_.parameters[i];
    for (std::int64_t j = 0; j < now.range.count; ++j) {
      const float wanted =
          now.layer == fewer.parameters[0].layer ? 0 : values_[before.range.begin + j];
      ASSERT_EQ(loaded[now.range.begin + j], wanted) << now.name;
    }
  }
}

TEST_F(InitialWeights, ALastLayerOfOtherClassesIsNotTaken) {
  ModuleFile(layout_, values_).write(file_);
  std::vector<float> loaded(layout_.count, 5);
  const auto lines = load_initial_weights(file_, layout_, loaded.data(), /*other_classes=*/true);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(mentions(lines[0], {"fc/weights", "fc/biases"}));
  for (const Parameter& p : layout_.parameters) {
    const float wanted = p.layer == layout_.parameters[0].layer ? 0 : values_[p.range.begin];
    ASSERT_EQ(loaded[p.range.begin], wanted) << p.name;
  }
}

TEST_F(InitialWeights, KnowTheClassesOfAnExport) {
  write_safetensors_text(file_, R"({"__metadata__":{"model":"m","class_names":"[\"a b\",\"c\"]"}})",
                         "");
  EXPECT_EQ(initial_metadata(file_).texts.at("class_names"), "a b\nc");
  EXPECT_EQ(initial_metadata(file_).texts.at("model"), "m");
  for (const char* other : {"[1]", "{", "7", "[[\\\"a\\\"]]"}) {
    write_safetensors_text(file_,
                           fmt::format(R"({{"__metadata__":{{"class_names":"{}"}}}})", other), "");
    EXPECT_EQ(initial_metadata(file_).texts.at("class_names"), "") << other;
  }
}

TEST_F(InitialWeights, WithoutALastLayerItBeginsNew) {
  ModuleFile module(layout_, values_);
  module.tensors.erase("fc.bias");
  module.tensors["extra"] = {"1", std::string(4, '\0')};
  module.write(file_);
  std::vector<float> loaded(layout_.count, 5);
  const std::vector<std::string> lines = load(layout_, loaded);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(mentions(lines[1], {"extra", "fc.weight"}));
  EXPECT_EQ(loaded[layout_.parameters[0].range.begin], 0);
}

TEST_F(InitialWeights, ReadTheNamesOfTimm) {
  const char* const kModels[] = {"vit_b_16", "convnext_tiny", "mobilenet_v3_large"};
  const char* const kNames[] = {"blocks.11.attn.qkv.bias", "stages.2.blocks.8.mlp.fc2.weight",
                                "blocks.4.1.se.conv_expand.weight"};
  for (int i = 0; i < 3; ++i) {
    const Layout layout = layout_of(10, find(models(), kModels[i]));
    std::vector<float> values(layout.count), loaded(layout.count);
    if (i > 0) initialize(layout, 7, values.data());
    ModuleFile module(layout, values);
    auto torchvision = std::exchange(module.tensors, {});
    for (auto& [name, tensor] : torchvision) {
      if (name.ends_with("layer_scale"))
        tensor.first = tensor.first.substr(0, tensor.first.find(','));
      module.tensors[timm_networks()[i].name_of(name)] = std::move(tensor);
    }
    EXPECT_EQ(module.tensors.size(), torchvision.size());
    EXPECT_TRUE(module.tensors.contains(kNames[i])) << kModels[i];
    if (i == 0) continue;  // large: tests/apps/timm.sh loads it
    module.write(file_);
    EXPECT_EQ(load(layout, loaded).size(), 1u) << kModels[i];
    const bool other_epsilon = i == 2;
    for (const Parameter& p : layout.parameters) {
      float wanted = values[p.range.begin];
      if (other_epsilon && p.name.ends_with("/gamma")) wanted *= std::sqrt(1.001f / 1.00001f);
      EXPECT_FLOAT_EQ(loaded[p.range.begin], wanted) << p.name;
    }
  }
}

TEST_F(InitialWeights, OtherModelsAreRefused) {
  ModuleFile module(layout_, values_);
  const auto [shape, bytes] = module.tensors["layer2.0.conv1.weight"];
  module.tensors["layer2.0.conv1.weight"] = {"6,12,3,3", bytes};
  module.write(file_);
  EXPECT_TRUE(mentions(error_of_load(), {"layer2.0.conv1.weight", "6x12x3x3", "12x6x3x3"}));
  module.tensors.erase("layer2.0.conv1.weight");
  module.write(file_);
  EXPECT_TRUE(mentions(error_of_load(), {"layer2.0.conv1.weight", "missing"}));
  // As many inputs decide the last layer, not only its name.
  module.tensors["layer2.0.conv1.weight"] = {shape, bytes};
  module.tensors["fc.weight"] = {"1,510", module.tensors["fc.weight"].second};
  module.write(file_);
  EXPECT_TRUE(mentions(error_of_load(), {"fc.weight", "1x510"}));
}

}  // namespace
}  // namespace lockstep
