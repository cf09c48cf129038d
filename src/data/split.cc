#include "src/data/split.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "src/base/check.h"
#include "src/base/crc32c.h"
#include "src/base/option_rows.h"

namespace lockstep {

std::string Split::text() const {
  return folds > 0 ? "--fold " + fold_text() : fmt::format("--validation {:g}", share);
}

std::string Split::fold_text() const { return folds > 0 ? fmt::format("{}/{}", fold, folds) : ""; }

void Split::read_fold(const std::string& text) {
  constexpr double kMostFolds = 1000;
  const std::size_t slash = text.find('/');
  if (slash == text.npos)
    fail_usage("--fold: \"{}\" is no fold. Pass its number and the number of folds, such as 2/5.",
               text);
  folds = parse_number<int>("--fold", text.substr(slash + 1), Bounds::at_least(2, kMostFolds));
  fold = parse_number<int>("--fold", text.substr(0, slash), Bounds::at_least(1, folds));
}

double number_of(const std::string& name, std::uint64_t seed) {
  // A checksum of similar names differs in few bits. The multiplications and shifts spread them
  // over the number.
  std::uint32_t mixed = crc32c(seed == 0 ? name : fmt::format("{} {}", seed, name)) * 0x9E3779B9u;
  mixed = (mixed ^ (mixed >> 15)) * 0x85EBCA6Bu;
  return (mixed ^ (mixed >> 13)) * 0x1p-32;
}

std::vector<bool> held_out(const Split& split, std::span<const std::int32_t> labels,
                           const std::function<std::string(std::int64_t)>& name) {
  const std::int64_t count = std::ssize(labels);
  std::vector<double> numbers(count);
  for (std::int64_t i = 0; i < count; ++i) numbers[i] = number_of(name(i), split.seed);
  std::vector<std::int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {},
                    [&](std::int64_t i) { return std::tuple(labels[i], numbers[i], i); });
  // Rounds for all classes together, so that the parts have their sizes to within one sample too.
  const auto until = [&](std::int64_t place) { return std::llround(split.share * place); };
  std::vector<bool> held(count);
  for (std::int64_t first = 0, last = 0; first < count; first = last) {
    while (last < count && labels[order[last]] == labels[order[first]]) ++last;
    const std::int64_t share = until(last) - until(first);
    std::int64_t chosen = 0;
    for (std::int64_t place = first; place < last; ++place) {
      const bool one =
          split.folds > 0 ? place % split.folds == split.fold - 1 : place - first < share;
      held[order[place]] = one;
      chosen += one;
    }
    // A network could not learn a class without a training sample.
    if (chosen == last - first && split.share < 1) held[order[first]] = false;
  }
  return held;
}

}  // namespace lockstep
