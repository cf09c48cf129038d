#include "src/base/table.h"

#include <algorithm>
#include <numeric>

namespace lockstep {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t change = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({change, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest(std::string_view name, const std::vector<std::string_view>& known) {
  std::size_t best = std::max<std::size_t>(2, name.size() / 3) + 1;
  std::string_view result;
  for (const std::string_view candidate : known) {
    const std::size_t distance = edit_distance(name, candidate);
    const bool related = distance < std::max(name.size(), candidate.size());
    if (related && distance < best) {
      best = distance;
      result = candidate;
    }
  }
  return std::string(result);
}

void fail_unknown(std::string_view kind, std::string_view name,
                  const std::vector<std::string_view>& known) {
  const std::string near = nearest(name, known);
  const std::string hint = near.empty() ? "" : fmt::format("did you mean \"{}\"? ", near);
  fail_usage("unknown {} \"{}\": {}choose from: {}", kind, name, hint, fmt::join(known, ", "));
}

}  // namespace lockstep
