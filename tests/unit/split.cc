// The division of training samples: exact shares of each class, folds, and what may change it.
#include "src/data/split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/support/expect_error.h"

namespace lockstep {
namespace {

/// Classes of 1000, 100, 10, 2 and 1 samples, side by side.
std::vector<std::int32_t> unequal() {
  std::vector<std::int32_t> labels;
  for (const int size : {1000, 100, 10, 2, 1})
    labels.insert(labels.end(), size, labels.empty() ? 0 : labels.back() + 1);
  return labels;
}

std::string name_of(std::int64_t i) { return "class/" + std::to_string(i) + ".jpg"; }

std::vector<std::int64_t> counts(const std::vector<bool>& held,
                                 const std::vector<std::int32_t>& labels) {
  std::vector<std::int64_t> of_class(labels.back() + 1);
  for (std::size_t i = 0; i < held.size(); ++i) of_class[labels[i]] += held[i];
  return of_class;
}

Split fold(int number, int folds, std::uint64_t seed = 0) {
  Split split;
  split.fold = number;
  split.folds = folds;
  split.seed = seed;
  return split;
}

TEST(Split, TakesItsShareOfEachClass) {
  const std::vector<std::int32_t> labels = unequal();
  for (const double share : {0.1, 0.25, 0.5}) {
    for (const std::uint64_t seed : {0, 1, 7}) {
      Split split = share;
      split.seed = seed;
      const auto held = counts(held_out(split, labels, name_of), labels);
      const std::int64_t sizes[] = {1000, 100, 10, 2, 1};
      for (int c = 0; c < 5; ++c)
        EXPECT_LE(std::abs(static_cast<double>(held[c]) - share * static_cast<double>(sizes[c])), 1)
            << share << " of class " << c;
      EXPECT_NEAR(static_cast<double>(std::accumulate(held.begin(), held.end(), 0)), share * 1113,
                  2);
      EXPECT_EQ(held[4], 0) << "the only sample of a class is for training";
    }
  }
  EXPECT_EQ(counts(held_out(1.0, labels, name_of), labels)[4], 1) << "all means all";
}

TEST(Split, FoldsAreDisjointAndCompleteAndOfEqualSizes) {
  const std::vector<std::int32_t> labels = unequal();
  std::vector<int> times(labels.size());
  for (int number = 1; number <= 5; ++number) {
    const std::vector<bool> held = held_out(fold(number, 5, 3), labels, name_of);
    const auto of_class = counts(held, labels);
    EXPECT_EQ(of_class[0], 200);
    EXPECT_EQ(of_class[1], 20);
    EXPECT_EQ(of_class[2], 2);
    for (std::size_t i = 0; i < held.size(); ++i) times[i] += held[i];
  }
  EXPECT_EQ(std::count(times.begin(), times.end(), 1), 1112);
  EXPECT_EQ(times.back(), 0) << "the only sample of its class";
}

TEST(Split, OfAnotherSeedTakesOthers) {
  const std::vector<std::int32_t> labels(10000, 0);
  Split split = 0.1;
  const std::vector<bool> first = held_out(split, labels, name_of);
  for (const std::uint64_t seed : {1, 2, 3, 4, 1000000007}) {
    split.seed = seed;
    const std::vector<bool> other = held_out(split, labels, name_of);
    int both = 0;
    for (std::size_t i = 0; i < labels.size(); ++i) both += first[i] && other[i];
    EXPECT_NEAR(both, 100, 40) << "as of independent choices, seed " << seed;
    EXPECT_EQ(other, held_out(split, labels, name_of));
  }
}

TEST(Split, NewSamplesMoveFewOthers) {
  std::vector<std::int32_t> labels(1000, 0);
  const std::vector<bool> before = held_out(0.2, labels, name_of);
  labels.resize(1100, 0);
  const std::vector<bool> after = held_out(0.2, labels, name_of);
  int moved = 0;
  for (std::size_t i = 0; i < before.size(); ++i) moved += before[i] != after[i];
  EXPECT_LE(moved, 20) << "a share of other names would move 320";
}

TEST(Split, ReadsItsFold) {
  Split split;
  split.read_fold("2/5");
  EXPECT_EQ(split, fold(2, 5));
  EXPECT_EQ(split.fold_text(), "2/5");
  EXPECT_EQ(split.text(), "--fold 2/5");
  EXPECT_EQ(Split(0.25).text(), "--validation 0.25");
  EXPECT_FALSE(Split().any());
  for (const char* wrong : {"2", "0/5", "6/5", "1/1", "2/5/7", "a/5", "/", "2/1001", "-1/5"})
    expect_error({"--fold"}, [&] { Split().read_fold(wrong); });
}

}  // namespace
}  // namespace lockstep
