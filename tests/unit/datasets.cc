// Every data set of the registry: what its entry says of it is so, and the generated ones are
// whole, repeatable, balanced, and of the shape of the sets that they replace.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <tuple>

#include "net/model.h"
#include "src/base/table.h"
#include "src/data/dataset.h"
#include "src/data/sets/newswires.h"
#include "src/data/validation.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"
#include "tests/support/test_dataset.h"

namespace lockstep {
namespace {

class EveryDataset : public testing::TestWithParam<const DatasetEntry*> {};

TEST_P(EveryDataset, NamesTheNeedsOfARun) {
  const DatasetEntry& entry = *GetParam();
  EXPECT_GT(entry.steps, 0);
  EXPECT_NO_THROW(find(models(), entry.model));
  if (!entry.stands_for.empty()) {
    EXPECT_TRUE(entry.files.empty()) << "what stands in for files needs none";
    EXPECT_FALSE(find(datasets(), entry.stands_for).files.empty());
    EXPECT_EQ(stand_in(entry.stands_for), &entry) << "two sets stand in for one";
  }
  if (!entry.files.empty()) {
    const std::string refusal = error_of([&] { entry.open({.seed = 1}); });
    EXPECT_TRUE(mentions(refusal, {"needs", "--data ", entry.own ? "" : "scripts/get_data.sh "}));
  }
}

TEST_P(EveryDataset, RefusesAFolderForAFileAndTheReverse) {
  const DatasetEntry& entry = *GetParam();
  if (entry.files.empty()) GTEST_SKIP() << "it is generated";
  const TemporaryDirectory folder;
  const auto refusal = [&](const std::filesystem::path& path) {
    const std::string text = error_of(
        [&] { open_data(entry, {.place = {{path}}, .images = {.size = entry.resizes ? 8 : 0}}); });
    EXPECT_FALSE(mentions(text, {"damaged"})) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    return text;
  };
  const std::string nowhere = (folder / "nowhere").string();
  EXPECT_TRUE(mentions(refusal(nowhere), {nowhere + " does not exist", "--data"}));
  EXPECT_TRUE(entry.own || mentions(refusal(nowhere), {"scripts/get_data.sh"}));
  EXPECT_TRUE(mentions(refusal(folder.path()), {folder.path().c_str()})) << "empty";
  if (entry.one_file) {
    EXPECT_TRUE(mentions(refusal(folder.path()), {"is a folder", "--dataset folder"}));
    return;
  }
  if (entry.texts) {
    put(folder / "texts.zip", "x");
    EXPECT_TRUE(mentions(refusal(folder / "texts.zip"), {"texts.zip", "Unpack it"}));
    return;
  }
  for (const auto& [name, advice] : {std::pair("data.tar.gz", "Unpack it"),
                                     {"photos.ZIP", "Unpack it"},
                                     {"cifar-10-binary.tar.gz", "Unpack it"},
                                     {"mnist.npz", "folder"},
                                     {"notes.txt", "folder"},
                                     {"photos.h5", "--dataset packed"},
                                     {"labels.csv", "Pass the folder"}}) {
    put(folder / name, "x");
    EXPECT_TRUE(mentions(refusal(folder / name),
                         {(folder / name).string() + " is a file", "folder", advice}));
  }
}

TEST_P(EveryDataset, HasAValidationSetThatOnlyIndicesDecide) {
  const DatasetEntry& entry = *GetParam();
  if (!entry.files.empty()) GTEST_SKIP() << "divided by the same code";
  const OpenedData whole = entry.open({.seed = 3}),
                   pair = open_data(entry, {.seed = 3, .validation = 0.1});
  EXPECT_NEAR(static_cast<double>(pair.validation->size()),
              0.1 * static_cast<double>(whole.train->size()), 1);
  EXPECT_EQ(pair.train->size() + pair.validation->size(), whole.train->size());
  EXPECT_EQ(pair.test->size(), whole.test->size());
  EXPECT_NE(pair.identity, whole.identity);
  EXPECT_EQ(&pair.evaluated(), pair.validation.get());
  std::int64_t training = 0, validation = 0;
  std::vector<std::uint8_t> one(whole.train->format().bytes()), other(one.size());
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < whole.train->size(); ++i) labels.push_back(whole.train->label(i));
  const std::vector<bool> held =
      held_out(0.1, labels, [](std::int64_t i) { return std::to_string(i); });
  for (std::int64_t i = 0; i < 300; ++i) {
    const Dataset& part = held[i] ? *pair.validation : *pair.train;
    const std::int64_t at = held[i] ? validation++ : training++;
    EXPECT_EQ(part.label(at), whole.train->label(i));
    const std::uint8_t *a = part.stored(at, one.data()), *b = whole.train->stored(i, other.data());
    EXPECT_TRUE(std::equal(a, a + one.size(), b)) << i;
  }
  EXPECT_GT(validation, 10);
  expect_error({"--validation"}, [&] { open_data(entry, {.seed = 3, .validation = 1}); });
}

TEST_P(EveryDataset, IsCompleteAndReproducibleIfGenerated) {
  const DatasetEntry& entry = *GetParam();
  if (!entry.files.empty()) GTEST_SKIP() << "its files are read in a test of its own";
  const OpenedData pair = entry.open({.seed = 3}), again = entry.open({.seed = 3}),
                   other = entry.open({.seed = 4});
  EXPECT_EQ(pair.identity, again.identity);
  EXPECT_NE(pair.identity, other.identity);
  EXPECT_TRUE(find(models(), entry.model).fits(pair.train->sample_shape()));
  EXPECT_EQ(pair.test->sample_shape(), pair.train->sample_shape());
  EXPECT_EQ(pair.test->classes(), pair.train->classes());
  EXPECT_EQ(static_cast<int>(pair.class_names.size()), pair.train->classes());
  EXPECT_EQ(std::set<std::string>(pair.class_names.begin(), pair.class_names.end()).size(),
            pair.class_names.size());
  const auto count = static_cast<std::size_t>(pair.train->sample_shape().count());
  if (find(models(), entry.model).words) {
    std::vector<std::int32_t> one(count), two(count), three(count);
    pair.train->read(1, nullptr, one.data(), Type::i32);
    again.train->read(1, nullptr, two.data(), Type::i32);
    other.train->read(1, nullptr, three.data(), Type::i32);
    EXPECT_EQ(one, two);
    EXPECT_NE(one, three);
    for (const OpenedData* set : {&pair, &other}) {
      for (std::int64_t index = 0; index < 200; ++index) {
        set->test->read(index, nullptr, one.data(), Type::i32);
        EXPECT_GE(*std::min_element(one.begin(), one.end()), 0);
        EXPECT_LT(*std::max_element(one.begin(), one.end()), kNewswireWords);
        EXPECT_LT(set->test->label(index), set->test->classes());
      }
    }
    return;
  }
  std::vector<float> one(count), two(count);
  std::vector<Bfloat16> half(count);
  for (const auto& [set, same] : {std::pair(pair.train.get(), again.train.get()),
                                  std::pair(pair.test.get(), again.test.get())}) {
    EXPECT_GT(set->size(), set->classes());
    for (const std::int64_t index : {std::int64_t{0}, set->size() / 3, set->size() - 1}) {
      EXPECT_GE(set->label(index), 0);
      EXPECT_LT(set->label(index), set->classes());
      for (const bool training : {false, true}) {
        Random first(1, Purpose::augment, 0, 7), second = first, third = first;
        set->read(index, training ? &first : nullptr, one.data(), Type::f32);
        same->read(index, training ? &second : nullptr, two.data(), Type::f32);
        set->read(index, training ? &third : nullptr, half.data(), Type::bf16);
        EXPECT_EQ(one, two);
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_TRUE(std::isfinite(one[i]));
          ASSERT_NEAR(static_cast<float>(half[i]), one[i], std::abs(one[i]) / 128);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Datasets, EveryDataset, testing::ValuesIn([] {
                           std::vector<const DatasetEntry*> entries;
                           for (const DatasetEntry& entry : datasets()) entries.push_back(&entry);
                           return entries;
                         }()),
                         [](const auto& info) { return std::string(info.param->name); });

TEST(GeneratedImages, HaveTheShapeOfTheSetsTheyReplace) {
  for (const auto& [name, train, shape] : {std::tuple("digits", 60000, Shape{1, 28, 28, 1}),
                                           {"synthetic", 50000, Shape{1, 24, 24, 3}}}) {
    SCOPED_TRACE(name);
    const OpenedData pair = find(datasets(), name).open({.seed = 1});
    EXPECT_EQ(pair.train->size(), train);
    EXPECT_EQ(pair.test->size(), 10000);
    EXPECT_EQ(pair.train->sample_shape(), shape);
    for (const Dataset* set : {pair.train.get(), pair.test.get()}) {
      std::vector<std::int64_t> count(10);
      for (std::int64_t i = 0; i < set->size(); ++i) ++count.at(set->label(i));
      EXPECT_EQ(count, std::vector<std::int64_t>(10, set->size() / 10));
    }
  }
}

TEST(GeneratedImages, DependOnlyOnSeedPartAndIndex) {
  for (const char* name : {"digits", "synthetic"}) {
    SCOPED_TRACE(name);
    const DatasetEntry& entry = find(datasets(), name);
    const OpenedData one = entry.open({.seed = 1}), same = entry.open({.seed = 1}),
                     other = entry.open({.seed = 2});
    for (const std::int64_t index : {4321, 0, 9999}) {
      const auto values = read(*one.train, index);
      EXPECT_EQ(values, read(*same.train, index));
      EXPECT_EQ(values, read(*one.train, index));
      EXPECT_NE(values, read(*one.test, index));
      EXPECT_NE(values, read(*one.train, index + 10));
      EXPECT_NE(values, read(*other.train, index));
    }
  }
}

TEST(GeneratedImages, AreOnTheScaleOfRealOnes) {
  for (const char* name : {"digits", "synthetic"}) {
    const OpenedData pair = find(datasets(), name).open({.seed = 1});
    double sum = 0, squares = 0, count = 0;
    for (std::int64_t i = 0; i < 500; ++i) {
      for (const float value : read(*pair.train, i)) {
        sum += value;
        squares += value * value;
        ++count;
      }
    }
    const double mean = sum / count, deviation = std::sqrt(squares / count - mean * mean);
    EXPECT_NEAR(mean, 0, 0.3) << name;
    EXPECT_NEAR(deviation, 1, 0.3) << name;
  }
}

}  // namespace
}  // namespace lockstep
