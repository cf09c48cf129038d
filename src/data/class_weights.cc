#include "src/data/class_weights.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "src/base/check.h"
#include "src/base/option_rows.h"
#include "src/base/plural.h"
#include "src/base/text.h"
#include "src/data/csv.h"
#include "src/files/file.h"

namespace lockstep {
namespace {

constexpr double kHighest = 1e9;  // sums of such losses do not overflow

/// The mean weight of a sample is 1.
std::vector<float> balanced_weights(const std::vector<std::int64_t>& samples) {
  const std::int64_t all = std::accumulate(samples.begin(), samples.end(), std::int64_t{0}),
                     classes = std::ssize(samples) - std::ranges::count(samples, 0);
  std::vector<float> weights;
  for (const std::int64_t count : samples) {
    const auto share = static_cast<double>(classes * count);
    weights.push_back(count == 0 ? 1 : static_cast<float>(static_cast<double>(all) / share));
  }
  return weights;
}

std::vector<float> read_class_weights(const std::filesystem::path& file,
                                      const std::vector<std::string>& classes) {
  const auto found = read_file(file);
  if (!found)
    fail_usage("--class-weights {}: there is no such file. Correct its name.", file.string());
  const std::string text = with_unix_ends(*found);
  std::vector<std::optional<float>> given(classes.size());
  CsvRows rows(text, file.string());
  for (std::vector<std::string> fields; rows.next(fields);) {
    const std::string where = fmt::format("{}, line {}", file.string(), rows.line());
    if (rows.line() == 1 && fields == std::vector<std::string>{"class", "weight"}) continue;
    if (fields.size() != 2) {
      fail_usage("{}: {} in place of 2. Write class,weight, and quotes around a name with a comma.",
                 where, counted(fields.size(), "field"));
    }
    const auto label = std::ranges::find(classes, fields[0]) - classes.begin();
    if (label == std::ssize(classes)) {
      fail_usage("{}: {} is no class of the data. Use the names {}.", where, one_line(fields[0]),
                 one_line(listed(classes)));
    }
    if (given[label])
      fail_usage("{}: {} has a weight already. Remove one line.", where, one_line(fields[0]));
    given[label] = parse_number<float>(where, fields[1], Bounds::at_least(0, kHighest));
  }
  std::vector<std::string> missing;
  std::vector<float> weights;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (!given[i]) missing.push_back(classes[i]);
    weights.push_back(given[i].value_or(0));
  }
  if (!missing.empty()) {
    fail_usage("{} has no weight of {}. Add a line class,weight for each.", file.string(),
               one_line(listed(missing)));
  }
  if (std::ranges::all_of(weights, [](float weight) { return weight == 0; }))
    fail_usage("{}: all weights are 0. Use one above 0.", file.string());
  return weights;
}

}  // namespace

std::vector<std::int64_t> samples_by_class(const Dataset& data) {
  std::vector<std::int64_t> samples(data.classes());
  for (std::int64_t i = 0; i < data.size(); ++i) ++samples[data.label(i)];
  return samples;
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
