#include "src/base/table.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace lockstep {
namespace {

/// Insertions, deletions, changes and swaps of neighbours.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  // The table of distances of all beginnings of a and b, of which three rows are kept: a swap looks
  // back by two. A letter that was swapped is not changed again ("optimal string alignment").
  std::vector<std::size_t> before, last(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = last[j - 1] + (a[i - 1] != b[j - 1]);
      row[j] = std::min({change, row[j - 1] + 1, last[j] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::string nearest(std::string_view name, const std::vector<std::string_view>& known) {
  constexpr std::size_t kBeginning = 3;  // letters of a name that suggest the whole name
  // A third of the letters may be wrong. A name that is further away would mislead.
  std::size_t best = std::max<std::size_t>(1, name.size() / 3) + 1;
  std::string_view result;
  for (const std::string_view candidate : known) {
    const bool begins = name.size() >= kBeginning && candidate.starts_with(name);
    const std::size_t distance = begins ? std::min<std::size_t>(1, candidate.size() - name.size())
                                        : edit_distance(name, candidate);
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
