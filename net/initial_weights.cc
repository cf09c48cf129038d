#include "net/initial_weights.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "net/pytorch_names.h"
#include "src/base/check.h"
#include "src/base/plural.h"
#include "src/base/text.h"
#include "src/files/file_kind.h"
#include "src/files/pytorch_file.h"
#include "src/files/safetensors.h"

namespace lockstep {
namespace {

/// The tensors of a file that other programs wrote. None: `file` is a checkpoint, or of a kind that
/// the error of its reader names.
std::optional<TensorFile> open_tensors(const std::filesystem::path& file) {
  const std::string_view kind = kind_of(file).name;
  const std::string ending = file.extension();
  if (kind == kPytorchFile || (kind.empty() && (ending == ".pth" || ending == ".pt")))
    return read_pytorch(file);
  if (kind == kSafetensorsFile || ending == ".safetensors") return read_safetensors(file);
  return {};
}

/// Whether the shapes are the same, except perhaps the number of classes.
bool same_but_classes(Shape a, Shape b) {
  return a.rank() == b.rank() && a.with_batch(1) == b.with_batch(1);
}

/// Kolesnikov et al., Big Transfer, 2020: a new last layer begins with zeros. The loss is then
/// that of a guess, and the first steps do not spoil the other layers.
void clear_last_layer(const Layout& layout, float* parameters) {
  const int last = layout.parameters.front().layer;
  for (const Parameter& parameter : layout.parameters)
    if (parameter.layer == last)
      std::fill_n(parameters + parameter.range.begin, parameter.range.count, 0.0f);
}

std::vector<std::string> load_checkpoint(const std::filesystem::path& file, const Layout& layout,
                                         float* parameters, bool other_classes) {
  const Section weights{.name = "parameters", .arena = parameters};
  const Checkpoint checkpoint(file);
  checkpoint.verify();
  // The arenas begin with the last layer. If the file has another number of classes in one of its
  // arrays, the whole layer begins with zeros.
  const int last = layout.parameters.front().layer;
  for (const Parameter& parameter : layout.parameters) {
    const std::optional<Shape> there = checkpoint.shape(weights, parameter);
    if (parameter.layer != last || !there || !same_but_classes(*there, parameter.shape)) continue;
    if (*there == parameter.shape && !other_classes) continue;
    checkpoint.load(layout, {weights}, last);
    clear_last_layer(layout, parameters);
    return {fmt::format(
        "{} and the rest of its layer begin with zeros, because the file has other classes",
        parameter.name)};
  }
  checkpoint.load(layout, {weights});
  return {};
}

/// How a file names the parameters of a network.
struct Naming {
  /// "module." or what else a wrapper of modules puts in front of all names.
  std::string prefix;
  /// Null: torchvision's names.
  const TimmNetwork* timm = nullptr;

  std::string of(const Parameter& parameter) const {
    const std::string name = pytorch_name(parameter.name);
    return prefix + (timm == nullptr ? name : timm->name_of(name));
  }
};

/// Looks for the last parameter of the arena, which belongs to the first layer. Files with another
/// last layer have it too.
Naming naming_of(const TensorFile& reader, const Layout& layout) {
  for (const char* prefix : {"", "module.", "model.", "backbone.", "network.", "net.",
                             "model.module.", "module.model.", "model.backbone.", "model.model."}) {
    for (const TimmNetwork& network : timm_networks())
      if (reader.tensors().contains(prefix + network.marker)) return {prefix, &network};
    const Naming naming{prefix};
    if (reader.tensors().contains(naming.of(layout.parameters.back()))) return naming;
  }
  return {};
}

/// timm and torchvision shape some arrays differently: 768, or 768 x 1 x 1.
std::vector<std::int64_t> without_ones(std::vector<std::int64_t> shape) {
  std::erase(shape, 1);
  return shape;
}

/// Scales the gammas for variances to which `ours` is added instead of `theirs`. The factor of a
/// channel in evaluation, gamma / sqrt(variance + epsilon), stays the same.
void change_epsilon(const Layout& layout, float theirs, float ours, float* parameters) {
  for (const Parameter& gamma : layout.parameters) {
    if (!gamma.name.ends_with("/gamma")) continue;
    const std::string name = gamma.name.substr(0, gamma.name.rfind('/')) + "/variance";
    const auto variance = std::ranges::find(layout.parameters, name, &Parameter::name);
    if (variance == layout.parameters.end()) continue;
    for (std::int64_t i = 0; i < gamma.shape.count(); ++i) {
      const float value = parameters[variance->range.begin + i];
      parameters[gamma.range.begin + i] *= std::sqrt((value + ours) / (value + theirs));
    }
  }
}

/// The tensor of each parameter, and the lines about them.
struct Matches {
  Naming naming;
  std::vector<std::pair<const Parameter*, std::string>> pairs;
  std::vector<std::string> lines;
};

std::vector<std::string> unused_tensors(const TensorFile& reader, const Matches& matches) {
  std::set<std::string> used;
  for (const auto& [parameter, name] : matches.pairs) used.insert(name);
  std::vector<std::string> unused;
  for (const auto& [name, tensor] : reader.tensors()) {
    // PyTorch's batch norm counts its batches. Nothing here uses the count.
    if (!used.contains(name) && !name.ends_with("num_batches_tracked"))
      unused.push_back(printable(name));
  }
  return unused;
}

/// A parameter takes the tensor of its name if the shapes agree. Only the last layer may be missing
/// or have other classes; any other difference means that the file is of another model.
Matches match(const TensorFile& reader, const std::filesystem::path& file, const Layout& layout,
              bool other_classes) {
  const int last = layout.parameters.front().layer;
  Matches matches{naming_of(reader, layout), {}, {}};
  std::vector<std::string> fresh;
  for (const Parameter& parameter : layout.parameters) {
    const std::string name = matches.naming.of(parameter);
    const bool is_last = parameter.layer == last;
    std::vector<std::int64_t> wanted = pytorch_shape(parameter);
    std::string is = "is missing";
    bool fits = true;
    if (const auto found = reader.tensors().find(name); found != reader.tensors().end()) {
      const std::vector<std::int64_t>& shape = found->second.shape;
      if (!(other_classes && is_last) && without_ones(shape) == without_ones(wanted)) {
        matches.pairs.emplace_back(&parameter, name);
        continue;
      }
      is = fmt::format("is {}", fmt::join(shape, "x"));
      // The extents besides the number of classes decide whether it is a last layer of this model.
      if (!shape.empty()) wanted[0] = shape[0];
      fits = shape == wanted;
    }
    if (is_last && fits) {
      fresh.push_back(parameter.name);
      continue;
    }
    for (const Parameter& any : layout.parameters)
      matches.pairs.emplace_back(&any, matches.naming.of(any));
    const std::string others = listed(unused_tensors(reader, matches));
    fail(
        "{} does not fit this model: {} {}, and {} is {}.{} Use weights of this model, or pass the "
        "--model, --image-size or --colours of the weights.",
        file.string(), name, is, parameter.name, fmt::join(pytorch_shape(parameter), "x"),
        others.empty() ? "" : fmt::format(" The file has {} instead.", others));
  }
  // A layer begins as a whole.
  if (!fresh.empty()) {
    std::erase_if(matches.pairs, [&](const auto& pair) { return pair.first->layer == last; });
  }
  require(!matches.pairs.empty(), "{} has no weights of this model. Use another file.",
          file.string());
  matches.lines.push_back(fmt::format("{} come from {}{}",
                                      counted(std::ssize(matches.pairs), "array"), file.string(),
                                      fresh.empty() ? "" : ", new: " + listed(fresh)));
  const std::vector<std::string> unused = unused_tensors(reader, matches);
  if (!unused.empty())
    matches.lines.push_back(fmt::format("not used from {}: {}", file.string(), listed(unused)));
  return matches;
}

std::vector<std::string> load_tensors(const TensorFile& reader, const std::filesystem::path& file,
                                      const Layout& layout, float* parameters, bool other_classes) {
  const Matches matches = match(reader, file, layout, other_classes);
  // In a copy, because the caller keeps its weights if the file fails halfway.
  std::vector<float> loaded(parameters, parameters + layout.count);
  clear_last_layer(layout, loaded.data());  // the weights of the file may follow
  for (const auto& [parameter, name] : matches.pairs)
    from_pytorch(*parameter, reader.read(name), &loaded[parameter->range.begin]);
  if (const TimmNetwork* timm = matches.naming.timm; timm != nullptr && timm->epsilon > 0)
    change_epsilon(layout, timm->epsilon, timm->other_epsilon, loaded.data());
  std::ranges::copy(loaded, parameters);
  return matches.lines;
}

}  // namespace

CheckpointMetadata initial_metadata(const std::filesystem::path& file) {
  std::optional<TensorFile> tensors = read_complete(file, [&] { return open_tensors(file); });
  if (!tensors) return read_metadata(file);
  CheckpointMetadata metadata;
  metadata.texts["model"] = printable(tensors->metadata["model"]);
  metadata.texts["class_names"] = printable(
      fmt::format("{}", fmt::join(texts_of_list(tensors->metadata["class_names"]), "\n")));
  return metadata;
}

std::vector<std::string> load_initial_weights(const std::filesystem::path& file,
                                              const Layout& layout, float* parameters,
                                              bool other_classes) {
  return read_complete(file, [&] {
    const std::optional<TensorFile> tensors = open_tensors(file);
    return tensors ? load_tensors(*tensors, file, layout, parameters, other_classes)
                   : load_checkpoint(file, layout, parameters, other_classes);
  });
}

}  // namespace lockstep
