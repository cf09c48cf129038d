#include "net/initial_weights.h"

#include <algorithm>
#include <map>
#include <set>

#include "src/base/check.h"
#include "src/base/plural.h"
#include "src/base/text.h"
#include "src/files/safetensors.h"

namespace lockstep {
namespace {

bool is_safetensors(const std::filesystem::path& file) {
  return file.extension() == ".safetensors";
}

/// Whether the shapes differ only in their number of classes.
bool of_other_classes(Shape a, Shape b) {
  return a != b && a.rank() == b.rank() && a.with_batch(1) == b.with_batch(1);
}

std::string line_of_new_layer(const Parameter& parameter) {
  return fmt::format(
      "{} and the rest of its layer begin with random weights, because the file has "
      "another number of classes",
      parameter.name);
}

std::vector<std::string> load_checkpoint(const std::filesystem::path& file, const Layout& layout,
                                         float* parameters) {
  const Section weights{.name = "parameters", .arena = parameters};
  const Checkpoint checkpoint(file);
  checkpoint.verify();
  const int last = layout.parameters.front().layer;
  for (const Parameter& parameter : layout.parameters) {
    const std::optional<Shape> there = checkpoint.shape(weights, parameter);
    if (parameter.layer != last || !there || !of_other_classes(*there, parameter.shape)) continue;
    checkpoint.load(layout, {weights}, last);
    return {line_of_new_layer(parameter)};
  }
  checkpoint.load(layout, {weights});
  return {};
}

/// Whether a parameter is the filters of a convolution.
bool is_filters(const Parameter& parameter) {
  return parameter.shape.rank() > 2 && parameter.name.ends_with("/weights");
}

/// The extents of a parameter in PyTorch: the channels of filters come second.
std::vector<std::int64_t> pytorch_shape(const Parameter& parameter) {
  std::vector<std::int64_t> shape;
  for (int i = 0; i < parameter.shape.rank(); ++i) shape.push_back(parameter.shape[i]);
  if (is_filters(parameter)) std::rotate(shape.begin() + 1, shape.end() - 1, shape.end());
  return shape;
}

/// From filters, channels, taps to filters, taps, channels.
void move_channels_last(const std::vector<float>& from, const Parameter& parameter, float* to) {
  const Shape shape = parameter.shape;
  const std::int64_t channels = is_filters(parameter) ? shape.back() : 1,
                     taps = shape.row() / channels;
  for (std::int64_t filter = 0; filter < shape[0]; ++filter) {
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      for (std::int64_t c = 0; c < channels; ++c)
        *to++ = from[(filter * channels + c) * taps + tap];
    }
  }
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

/// "module." or what else a wrapper of modules puts in front of all names; empty: nothing.
std::string prefix_of(const SafetensorsReader& reader, const Layout& layout) {
  for (const char* prefix : {"module.", "model.", "backbone."})
    if (reader.tensors().contains(prefix + pytorch_name(layout.parameters.back().name)))
      return prefix;
  return "";
}

/// The tensor of each parameter, and the lines about them.
struct Matches {
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
              const Layout& layout) {
  const std::string prefix = prefix_of(reader, layout);
  const int last = layout.parameters.front().layer;
  Matches matches;
  std::vector<std::string> fresh;
  for (const Parameter& parameter : layout.parameters) {
    const std::string name = prefix + pytorch_name(parameter.name);
    const auto found = reader.tensors().find(name);
    std::vector<std::int64_t> wanted = pytorch_shape(parameter);
    if (found != reader.tensors().end() && found->second.shape == wanted) {
      matches.pairs.emplace_back(&parameter, name);
      continue;
    }
    const std::string is = found == reader.tensors().end()
                               ? "is missing"
                               : fmt::format("is {}", fmt::join(found->second.shape, "x"));
    if (found != reader.tensors().end() && !found->second.shape.empty())
      wanted[0] = found->second.shape[0];
    const bool fits = found == reader.tensors().end() || found->second.shape == wanted;
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
                                      fresh.empty() ? "" : ", random: " + some(fresh)));
  const std::vector<std::string> unused = unused_tensors(reader, matches);
  if (!unused.empty())
    matches.lines.push_back(fmt::format("not used from {}: {}", file.string(), some(unused)));
  return matches;
}

std::vector<std::string> load_safetensors(const std::filesystem::path& file, const Layout& layout,
                                          float* parameters) {
  const SafetensorsReader reader(file);
  const Matches matches = match(reader, file, layout);
  std::vector<float> loaded(parameters, parameters + layout.count);
  for (const auto& [parameter, name] : matches.pairs)
    move_channels_last(reader.read(name), *parameter, &loaded[parameter->range.begin]);
  std::copy(loaded.begin(), loaded.end(), parameters);
  return matches.lines;
}

}  // namespace

CheckpointMetadata initial_metadata(const std::filesystem::path& file) {
  if (!is_safetensors(file)) return read_metadata(file);
  SafetensorsReader reader(file);  // throws early
  return {};
}

std::string pytorch_name(const std::string& parameter) {
  static const std::map<std::string, std::string> kParts{
      {"weights", "weight"},    {"biases", "bias"},          {"gamma", "weight"},  {"beta", "bias"},
      {"mean", "running_mean"}, {"variance", "running_var"}, {"vectors", "weight"}};
  // Values have no layer of their own in PyTorch.
  if (parameter.ends_with("/values"))
    return pytorch_name(parameter.substr(0, parameter.rfind('/')));
  const std::size_t end = parameter.rfind('/');
  const auto part = kParts.find(parameter.substr(end + 1));
  std::string name = parameter.substr(0, end + 1) +
                     (part == kParts.end() ? parameter.substr(end + 1) : part->second);
  std::replace(name.begin(), name.end(), '/', '.');
  // nn.MultiheadAttention has no layer for its inputs either.
  if (const std::size_t at = name.rfind(".in_proj."); at != name.npos) name[at + 8] = '_';
  return name;
}

std::vector<std::string> load_initial_weights(const std::filesystem::path& file,
                                              const Layout& layout, float* parameters) {
  return is_safetensors(file) ? load_safetensors(file, layout, parameters)
                              : load_checkpoint(file, layout, parameters);
}

}  // namespace lockstep
