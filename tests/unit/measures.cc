// Measures of unequal classes against scikit-learn, with samples of a generator that both compute.
#include "apps/evaluate/measures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "src/base/elementary.h"

namespace lockstep {
namespace {

double value_of(std::string_view name, const EvaluationResult& result) {
  return find(measures(), name).value(result);
}

constexpr int kClasses = 4;

/// The confusion and the probabilities of 500 samples: 338, 112, 43 and 7 of the classes.
EvaluationResult sampled() {
  std::uint64_t state = 1;
  const auto draw = [&] {
    state = (state * 1103515245 + 12345) % (std::uint64_t{1} << 31);
    return static_cast<double>(state) * 0x1p-31;
  };
  EvaluationResult result;
  result.confusion.resize(kClasses * kClasses);
  result.probabilities.emplace(kClasses);
  for (int n = 0; n < 500; ++n) {
    const double u = draw();
    const int label = u < 0.7 ? 0 : u < 0.9 ? 1 : u < 0.98 ? 2 : 3;
    std::vector<double> p;
    for (int c = 0; c < kClasses; ++c)
      p.push_back(exponential(3 * draw() + (c == label ? 1.5 : 0)));
    const double sum = std::accumulate(p.begin(), p.end(), 0.0);
    for (double& value : p) value /= sum;
    ++result.confusion[label * kClasses + (std::max_element(p.begin(), p.end()) - p.begin())];
    result.probabilities->add(p, label);
  }
  return result;
}

TEST(Measures, AreThoseOfScikitLearn) {
  const EvaluationResult result = sampled();
  EXPECT_NEAR(value_of("f1", result), 0.5915912424453277, 1e-12);
  EXPECT_NEAR(value_of("balanced-accuracy", result), 0.7771813383396567, 1e-12);
  EXPECT_NEAR(value_of("auc", result), 0.9554341418077867, 1e-4) << "of all probabilities";
  const double precision[] = {0.96969697, 0.70588235, 0.45714286, 0.12765957},
               recall[] = {0.75739645, 0.75, 0.74418605, 0.85714286},
               f1[] = {0.85049834, 0.72727273, 0.56637168, 0.22222222},
               auc[] = {0.9572832201037329, 0.9420103092783505, 0.9441758689125235,
                        0.9782671689365401};
  for (int c = 0; c < kClasses; ++c) {
    const ClassCounts counts = class_counts(result)[c];
    EXPECT_NEAR(counts.precision(), precision[c], 1e-8);
    EXPECT_NEAR(counts.recall(), recall[c], 1e-8);
    EXPECT_NEAR(counts.f1(), f1[c], 1e-8);
    EXPECT_NEAR(result.probabilities->auc(c), auc[c], 5e-4) << c;
  }
}

TEST(Measures, AreWhatReportsShow) {
  std::set<std::string_view> names, fields, titles;
  for (const Measure& measure : measures()) {
    EXPECT_TRUE(names.insert(measure.name).second && fields.insert(measure.field).second &&
                titles.insert(measure.title).second)
        << measure.name;
    EXPECT_FALSE(measure.about.empty()) << measure.name;
  }
  EXPECT_EQ(measures().front().name, "accuracy") << "the default of --best";
  EXPECT_FALSE(find(measures(), "top5").chooses);
  EXPECT_EQ(find(measures(), "f1").text(0.21034), "21.03 %");
  EXPECT_EQ(find(measures(), "loss").text(1.87314), "1.8731");
  for (const Measure& measure : measures())
    EXPECT_EQ(measure.lower_is_better, measure.name == "loss") << measure.name;
}

TEST(Measures, ClassesWithoutSamplesDoNotCount) {
  EvaluationResult result;
  result.confusion = {3, 1, 0,   // of 4 samples of the first class
                      0, 0, 0,   // none of the second, but a prediction
                      0, 0, 0};  // neither
  EXPECT_DOUBLE_EQ(value_of("balanced-accuracy", result), 0.75);
  EXPECT_DOUBLE_EQ(value_of("f1", result), (6 / 7.0 + 0) / 2);
  EXPECT_TRUE(std::isnan(value_of("auc", result))) << "without probabilities";
  result.probabilities.emplace(3);
  result.probabilities->add(std::vector{0.5, 0.25, 0.25}, 0);
  EXPECT_TRUE(std::isnan(value_of("auc", result))) << "without a class to compare with";
}

TEST(ProbabilityCounts, BinsRise) {
  int last = -1;
  for (const double p :
       {0.0, 1e-30, 1e-9, 1e-3, 0.1, 0.4999, 0.5, 0.5001, 0.9, 0.999, 1 - 1e-9, 1.0}) {
    const int bin = ProbabilityCounts::bin_of(p);
    EXPECT_GE(bin, p > 0 && p < 1e-20 ? last : last + 1) << p;
    EXPECT_LT(bin, ProbabilityCounts::kBins);
    last = bin;
  }
  EXPECT_EQ(ProbabilityCounts::bin_of(0), 0);
  EXPECT_EQ(ProbabilityCounts::bin_of(1), ProbabilityCounts::kBins - 1);
}

TEST(ProbabilityCounts, PartsOfRanksAddToTheWhole) {
  ProbabilityCounts whole(2), one(2), two(2);
  for (int n = 0; n < 100; ++n) {
    const double p = n % 37 / 37.0;
    const std::vector<double> row{p, 1 - p};
    whole.add(row, n % 3 == 0);
    (n < 30 ? one : two).add(row, n % 3 == 0);
  }
  std::transform(one.all().begin(), one.all().end(), two.all().begin(), one.all().begin(),
                 std::plus());
  EXPECT_EQ(one.auc(0), whole.auc(0));
  EXPECT_TRUE(std::ranges::equal(one.all(), whole.all()));
}

TEST(ProbabilityCounts, NaNIsLeftOut) {
  ProbabilityCounts counts(2);
  counts.add(std::vector{std::numeric_limits<double>::quiet_NaN(), 0.5}, 0);
  EXPECT_TRUE(std::ranges::all_of(counts.all(), [](std::int64_t count) { return count == 0; }));
}

TEST(ProbabilityCounts, ACurveEndsWithAllSamples) {
  const EvaluationResult result = sampled();
  for (int c = 0; c < kClasses; ++c) {
    const auto curve = result.probabilities->curve(c, 50);
    ASSERT_LE(curve.size(), 50);
    ASSERT_GE(curve.size(), 7);
    EXPECT_EQ(curve.back().right + curve.back().wrong, 500);
    EXPECT_EQ(curve.back().right, class_counts(result)[c].samples);
    for (std::size_t i = 1; i < curve.size(); ++i) EXPECT_GE(curve[i].right, curve[i - 1].right);
  }
}

}  // namespace
}  // namespace lockstep
