#include "apps/tell/model_table.h"

#include <algorithm>

#include "src/base/check.h"

namespace lockstep {
namespace {

/// "norm1 (batch_norm + relu)"
std::string name_of(const LayerSummary& layer) {
  return fmt::format("{} ({}{})", layer.name, layer.kind,
                     layer.implementation.ends_with("+ relu") ? " + relu" : "");
}

/// "(None, 300, 7)"
std::string shape_of(const LayerSummary& layer) {
  std::string text = "(None";
  for (int axis = 1; axis < layer.output.rank(); ++axis)
    text += fmt::format(", {}", layer.output[axis]);
  return text + ")";
}

/// 332,856
std::string with_commas(std::int64_t number) {
  std::string text = std::to_string(number);
  for (auto place = std::ssize(text) - 3; place > 0; place -= 3) text.insert(place, ",");
  return text;
}

}  // namespace

std::string model_table(const ModelEntry& entry, Shape sample, int classes) {
  // No kernel runs: only shapes and names of layers are read.
  const auto device = make_cpu_device(1);
  const Model model(*device, entry, sample, classes, Type::f32, /*training=*/false);
  std::size_t names = 28, shapes = 25;  // widths of columns
  std::int64_t trained = 0, statistics = 0;
  for (const LayerSummary& layer : model.layers()) {
    names = std::max(names, name_of(layer).size());
    shapes = std::max(shapes, shape_of(layer).size());
    trained += layer.parameters;
    statistics += layer.statistics;
  }
  const auto row = [&](std::string_view name, std::string_view shape, const std::string& count) {
    return fmt::format("{:<{}} {:<{}} {:<10}", name, names, shape, shapes, count);
  };
  const std::string head = row("Layer (type)", "Output Shape", "Param #");
  const auto rule = [&](char c) { return std::string(head.size(), c); };
  std::vector<std::string> lines{fmt::format("Model: \"{}\"", entry.name), rule('_'), head,
                                 rule('=')};
  for (const LayerSummary& layer : model.layers()) {
    const std::string count = std::to_string(layer.parameters + layer.statistics);
    lines.push_back(row(name_of(layer), shape_of(layer), count));
  }
  lines.push_back(rule('='));
  lines.push_back("Total params: " + with_commas(trained + statistics));
  lines.push_back("Trainable params: " + with_commas(trained));
  lines.push_back("Non-trainable params: " + with_commas(statistics));
  lines.push_back(rule('_'));
  return fmt::format("{}", fmt::join(lines, "\n"));
}

}  // namespace lockstep
