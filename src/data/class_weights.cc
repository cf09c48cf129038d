#include "src/data/class_weights.h"

#include <algorithm>
#include <map>
#include <optional>

#include "src/base/check.h"
#include "src/base/option_rows.h"
#include "src/base/text.h"
#include "src/files/file.h"

namespace lockstep {
namespace {

constexpr double kHighest = 1e9;  // sums of such losses do not overflow

/// The text of a field of a CSV file.
std::string unquoted(const std::string& field) {
  if (field.size() < 2 || !field.starts_with('"') || !field.ends_with('"')) return field;
  std::string text;
  for (std::size_t i = 1; i + 1 < field.size(); ++i) {
    text += field[i];
    i += field[i] == '"';  // the second of two
  }
  return text;
}

}  // namespace

std::vector<std::int64_t> samples_by_class(const Dataset& data) {
  std::vector<std::int64_t> samples(data.classes());
  for (std::int64_t i = 0; i < data.size(); ++i) ++samples[data.label(i)];
  return samples;
}

std::vector<float> balanced_weights(const std::vector<std::int64_t>& samples) {
  std::int64_t all = 0, classes = 0;
  for (const std::int64_t count : samples) {
    all += count;
    classes += count > 0;
  }
  std::vector<float> weights;
  for (const std::int64_t count : samples) {
    weights.push_back(count == 0 ? 1
                                 : static_cast<float>(static_cast<double>(all) /
                                                      static_cast<double>(classes * count)));
  }
  return weights;
}

std::vector<float> read_class_weights(const std::filesystem::path& file,
                                      const std::vector<std::string>& classes) {
  const auto text = read_file(file);
  if (!text)
    fail_usage("--class-weights {}: there is no such file. Correct its name.", file.string());
  const auto label_of = [&](const std::string& name) {
    return std::find(classes.begin(), classes.end(), name) - classes.begin();
  };
  std::vector<std::optional<float>> found(classes.size());
  std::int64_t number = 0;
  for (const std::string& line : lines_of(with_unix_ends(*text))) {
    const std::string where = fmt::format("{}, line {}", file.string(), ++number);
    std::string own =
        number == 1 && line.starts_with(kByteOrderMark) ? line.substr(kByteOrderMark.size()) : line;
    if (own.ends_with('\r')) own.pop_back();
    if (own.empty() || (number == 1 && own == "class,weight")) continue;
    const std::size_t comma = own.rfind(',');
    const std::string name = unquoted(own.substr(0, comma));
    const auto label = static_cast<std::size_t>(label_of(name));
    if (comma == own.npos)
      fail_usage("{}: \"{}\" has no comma. Write class,weight.", where, one_line(own));
    if (label == classes.size()) {
      fail_usage("{}: {} is no class of the data. Use the names {}.", where, one_line(name),
                 one_line(listed(classes)));
    }
    if (found[label])
      fail_usage("{}: {} has a weight already. Remove one line.", where, one_line(name));
    found[label] = parse_number<float>(where, own.substr(comma + 1), Bounds::at_least(0, kHighest));
  }
  std::vector<std::string> missing;
  std::vector<float> weights;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (!found[i]) missing.push_back(classes[i]);
    weights.push_back(found[i].value_or(0));
  }
  if (!missing.empty()) {
    fail_usage("{} has no weight of {}. Add a line class,weight for each.", file.string(),
               one_line(listed(missing)));
  }
  if (std::ranges::all_of(weights, [](float weight) { return weight == 0; }))
    fail_usage("{}: all weights are 0. Use one above 0.", file.string());
  return weights;
}

std::vector<std::string> all_class_names(const OpenedData& data) {
  std::vector<std::string> names = data.class_names;
  while (std::ssize(names) < data.train->classes()) names.push_back(std::to_string(names.size()));
  return names;
}

std::vector<float> class_weights(const std::string& how, const OpenedData& data) {
  if (how.empty()) return {};
  if (how == "balanced") return balanced_weights(samples_by_class(*data.train));
  return read_class_weights(how, all_class_names(data));
}

}  // namespace lockstep
