// Weights of unequal classes: those of scikit-learn, and files with all that can be wrong in them.
#include "src/data/class_weights.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/files.h"
#include "tests/support/test_dataset.h"

namespace lockstep {
namespace {

using Weights = std::vector<float>;

/// Samples with these labels.
class Labelled : public TestDataset {
 public:
  explicit Labelled(std::vector<std::int32_t> labels)
      : TestDataset(std::ssize(labels), 3, {}), labels_(std::move(labels)) {}
  std::int32_t label(std::int64_t index) const override { return labels_[index]; }

 private:
  std::vector<std::int32_t> labels_;
};

OpenedData data_of(std::vector<std::int32_t> labels) {
  OpenedData data;
  data.train = std::make_unique<Labelled>(std::move(labels));
  data.class_names = {"cat", "dog, small", "fox"};
  return data;
}

TEST(ClassWeights, BalancedAreThoseOfScikitLearn) {
  // compute_class_weight("balanced", classes=[0, 1, 2], y=[0] * 5 + [1] * 3 + [2])
  EXPECT_EQ(class_weights("balanced", data_of({0, 0, 0, 0, 0, 1, 1, 1, 2})),
            (Weights{0.6f, 1.0f, 3.0f}));
  EXPECT_EQ(class_weights("balanced", data_of({0, 0, 0, 2})), (Weights{2 / 3.0f, 1, 2}))
      << "a class without samples";
  EXPECT_TRUE(class_weights("", data_of({0, 1, 2})).empty());
}

TEST(ClassWeights, AFileNamesEachClassOnce) {
  const TemporaryDirectory folder;
  const OpenedData data = data_of({0, 1, 2});
  const auto read = [&](const std::string& text) {
    std::ofstream(folder / "w.csv") << text;
    return class_weights((folder / "w.csv").string(), data);
  };
  EXPECT_EQ(read("fox,3\ncat,0.5\n\"dog, small\",0\n"), (Weights{0.5f, 0, 3}));
  EXPECT_EQ(read("\xef\xbb\xbf"
                 "class,weight\r\nfox,3\r\ncat,1e-3\r\n\"dog, small\",7\r\n"),
            (Weights{1e-3f, 7, 3}));
  EXPECT_EQ(read("fox,3\rcat,1\r\"dog, small\",7\r"), (Weights{1, 7, 3}));
  const std::string rest = "fox,3\n\"dog, small\",1\n";
  expect_error({"line 3", "wolf", "cat"}, [&] { read(rest + "wolf,1\ncat,1\n"); });
  expect_error({"line 4", "fox", "already"}, [&] { read(rest + "cat,1\nfox,1\n"); });
  expect_error({"line 3", "comma"}, [&] { read(rest + "cat\n"); });
  for (const char* weight : {"-1", "nan", "inf", "1e39", "", "two"})
    expect_error({"line 3", weight}, [&] { read(rest + "cat," + weight + "\n"); });
  expect_error({"no weight of cat"}, [&] { read(rest); });
  expect_error({"all weights are 0"}, [&] { read("fox,0\ncat,0\n\"dog, small\",0\n"); });
  expect_error({"nowhere"}, [&] { class_weights("nowhere", data); });
}

}  // namespace
}  // namespace lockstep
