#include "net/initial_weights.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "net/pytorch_names.h"
#include "src/base/check.h"
#include "src/base/plural.h"
#include "src/base/text.h"
#include "src/files/file_kind.h"
#include "src/files/safetensors.h"

namespace lockstep {
namespace {

/// Other files are checkpoints, or their error names their kind.
bool is_safetensors(const std::filesystem::path& file) {
  return file.extension() == ".safetensors" || kind_of(file).name == kSafetensorsFile;
}

/// Whether the shapes are the same, except perhaps the number of classes.
bool same_but_classes(Shape a, Shape b) {
  return a.rank() == b.rank() && a.with_batch(1) == b.with_batch(1);
}

std::string line_of_new_layer(const Parameter& parameter) {
  return fmt::format(
      "{} and the rest of its layer begin with zeros, because the file has other classes",
      parameter.name);
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
  const int last = layout.parameters.front().layer;
  for (const Parameter& parameter : layout.parameters) {
    const std::optional<Shape> there = checkpoint.shape(weights, parameter);
    if (parameter.layer != last || !there || !same_but_classes(*there, parameter.shape)) continue;
    if (*there == parameter.shape && !other_classes) continue;
    checkpoint.load(layout, {weights}, last);
    clear_last_layer(layout, parameters);
    return {line_of_new_layer(parameter)};
  }
  checkpoint.load(layout, {weights});
  return {};
}

/// The first names of `names`, and how many more there are.
std::string some(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 4;
  const std::vector<std::string> shown(names.begin(),
                                       names.begin() + std::min(kShown, names.size()));
  return fmt::format(
      "{}{}", fmt::join(shown, ", "),
      names.size() > kShown ? fmt::format(" and {} more", names.size() - kShown) : "");
}

/// How a file names the parameters of a network.
struct Naming {
  /// "module." or what else wrappers of modules put in front of all names.
  std::string prefix;
  /// Null: torchvision's names.
  const TimmNetwork* timm = nullptr;

  std::string of(const Parameter& parameter) const {
    const std::string name = pytorch_name(parameter.name);
    return prefix + (timm == nullptr ? name : timm->name_of(name));
  }
};

/// The tensors of a file by their names without the "_orig_mod." of torch.compile().
using TensorNames = std::map<std::string, std::string>;

TensorNames names_in(const SafetensorsReader& reader, const std::filesystem::path& file) {
  constexpr std::string_view kCompiled = "_orig_mod.";
  TensorNames names;
  for (const auto& [in_file, tensor] : reader.tensors()) {
    std::string name = in_file;
    for (std::size_t at; (at = name.find(kCompiled)) != name.npos;)
      name.erase(at, kCompiled.size());
    const auto [other, is_new] = names.emplace(name, in_file);
    require(is_new, "{} contains both {} and {}. Remove one of them.", file.string(),
            printable(other->second), printable(in_file));
  }
  return names;
}

/// Whether only wrappers of modules make such a prefix.
bool wraps(std::string_view prefix) {
  for (const std::string_view word : {"module.", "model.", "backbone.", "network.", "net."})
    if (prefix.starts_with(word)) return wraps(prefix.substr(word.size()));
  return prefix.empty();
}

/// Of several prefixes, the shortest: a file may contain several networks.
Naming naming_of(const TensorNames& names, const Layout& layout) {
  std::vector<std::pair<std::string, const TimmNetwork*>> markers{
      {pytorch_name(layout.parameters.back().name), nullptr}};
  for (const TimmNetwork& network : timm_networks()) markers.emplace_back(network.marker, &network);
  std::optional<Naming> naming;
  for (const auto& [marker, timm] : markers) {
    for (const auto& [name, in_file] : names) {
      const std::string prefix = name.substr(0, name.size() - std::min(marker.size(), name.size()));
      if (prefix + marker == name && wraps(prefix) &&
          (!naming || prefix.size() < naming->prefix.size()))
        naming = {prefix, timm};
    }
  }
  return naming.value_or(Naming{});
}

/// timm and torchvision shape some arrays differently: 768, or 768 x 1 x 1.
std::vector<std::int64_t> without_ones(std::vector<std::int64_t> shape) {
  std::erase(shape, 1);
  return shape;
}

/// Scales the gammas for variances to which `ours` is added instead of `theirs`.
void change_epsilon(const Layout& layout, float theirs, float ours, float* parameters) {
  for (const Parameter& gamma : layout.parameters) {
    if (!gamma.name.ends_with("/gamma")) continue;
    const std::string name = gamma.name.substr(0, gamma.name.rfind('/')) + "/variance";
    const auto variance =
        std::find_if(layout.parameters.begin(), layout.parameters.end(),
                     [&](const Parameter& parameter) { return parameter.name == name; });
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

std::vector<std::string> unused_tensors(const SafetensorsReader& reader, const Matches& matches) {
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

Matches match(const SafetensorsReader& reader, const std::filesystem::path& file,
              const Layout& layout, bool other_classes) {
  const int last = layout.parameters.front().layer;
  const TensorNames names = names_in(reader, file);
  Matches matches{naming_of(names, layout), {}, {}};
  std::vector<std::string> fresh;
  for (const Parameter& parameter : layout.parameters) {
    const std::string name = matches.naming.of(parameter);
    const auto found = names.find(name);
    const bool there = found != names.end();
    const std::vector<std::int64_t> shape =
        there ? reader.tensors().at(found->second).shape : std::vector<std::int64_t>{};
    std::vector<std::int64_t> wanted = pytorch_shape(parameter);
    if (there && !(other_classes && parameter.layer == last) &&
        without_ones(shape) == without_ones(wanted)) {
      matches.pairs.emplace_back(&parameter, found->second);
      continue;
    }
    const std::string is = there ? fmt::format("is {}", fmt::join(shape, "x")) : "is missing";
    if (there && !shape.empty()) wanted[0] = shape[0];
    const bool fits = !there || shape == wanted;
    if (parameter.layer == last && fits) {
      fresh.push_back(parameter.name);
      continue;
    }
    fail("{} does not fit this model: {} {}, and {} is {}. Use weights of this model.",
         file.string(), name, is, parameter.name, fmt::join(pytorch_shape(parameter), "x"));
  }
  // A layer begins as a whole.
  if (!fresh.empty()) {
    std::erase_if(matches.pairs, [&](const auto& pair) { return pair.first->layer == last; });
  }
  require(!matches.pairs.empty(), "{} has no weights of this model. Use another file.",
          file.string());
  matches.lines.push_back(fmt::format("{} come from {}{}",
                                      counted(std::ssize(matches.pairs), "array"), file.string(),
                                      fresh.empty() ? "" : ", new: " + some(fresh)));
  const std::vector<std::string> unused = unused_tensors(reader, matches);
  if (!unused.empty())
    matches.lines.push_back(fmt::format("not used from {}: {}", file.string(), some(unused)));
  return matches;
}

std::vector<std::string> load_safetensors(const std::filesystem::path& file, const Layout& layout,
                                          float* parameters, bool other_classes) {
  const SafetensorsReader reader(file);
  const Matches matches = match(reader, file, layout, other_classes);
  std::vector<float> loaded(parameters, parameters + layout.count);
  clear_last_layer(layout, loaded.data());  // the weights of the file may follow
  for (const auto& [parameter, name] : matches.pairs)
    from_pytorch(*parameter, reader.read(name), &loaded[parameter->range.begin]);
  if (const TimmNetwork* timm = matches.naming.timm; timm != nullptr && timm->epsilon > 0)
    change_epsilon(layout, timm->epsilon, timm->other_epsilon, loaded.data());
  std::copy(loaded.begin(), loaded.end(), parameters);
  return matches.lines;
}

}  // namespace

CheckpointMetadata initial_metadata(const std::filesystem::path& file) {
  if (!is_safetensors(file)) return read_metadata(file);
  const SafetensorsReader reader(file);
  CheckpointMetadata metadata;
  metadata.texts["model"] = printable(reader.metadata("model"));
  std::string& classes = metadata.texts["class_names"];
  for (const std::string& name : reader.metadata_list("class_names")) {
    if (!classes.empty()) classes += '\n';
    classes += printable(name);
  }
  return metadata;
}

std::vector<std::string> load_initial_weights(const std::filesystem::path& file,
                                              const Layout& layout, float* parameters,
                                              bool other_classes) {
  return is_safetensors(file) ? load_safetensors(file, layout, parameters, other_classes)
                              : load_checkpoint(file, layout, parameters, other_classes);
}

}  // namespace lockstep
