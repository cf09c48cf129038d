// A run follows its checkpoint, or the weights of --init, in the normalisation of images; classes
// that do not fit are named.
#include "apps/run/trained_data.h"

#include <gtest/gtest.h>

#include "src/data/sets/images.h"
#include "src/data/standard.h"
#include "tests/support/error_of.h"

namespace lockstep {
namespace {

constexpr const char* kOther = R"({"mean": [10], "deviation": [5]})";

class TrainedData : public testing::Test {
 protected:
  TrainedData() {
    const ImageStore store{{1, 2, 1}, {0, 50, 100, 150}, {0, 1}};
    data_ = image_datasets(store, store, {"cat", "dog"}, "images", "here");
    own_ = normalisation_of(*data_.train);
    options_.dataset = "folder";
    options_.model = "resnet20";
  }
  std::string seen() const { return normalisation_of(*data_.test); }
  /// --init with a checkpoint of these classes and this normalisation; the notes.
  std::vector<std::string> begin(const std::string& classes, const std::string& normalisation) {
    options_.init = "first.h5";
    Resumption resumption;
    resumption.initial.texts = {
        {"model", "resnet20"}, {kClassNames, classes}, {kNormalisation, normalisation}};
    std::vector<std::string> notes;
    follow_checkpoint(options_, resumption, data_, notes);
    return notes;
  }
  DatasetPair data_;
  std::string own_;
  Options options_;
};

TEST_F(TrainedData, ANewRunHasItsTrainingImagesNormalisation) {
  std::vector<std::string> notes;
  follow_checkpoint(options_, {}, data_, notes);
  EXPECT_EQ(own_, to_text(data_.train->format().standard, 1));
  EXPECT_EQ(seen(), own_);
  EXPECT_TRUE(notes.empty());
}

TEST_F(TrainedData, AResumeHasItsCheckpoints) {
  Resumption resumption;
  resumption.file = "c/step-0000000010.h5";
  resumption.metadata.texts[kNormalisation] = kOther;
  options_.init = "not/looked/at.h5";
  std::vector<std::string> notes;
  follow_checkpoint(options_, resumption, data_, notes);
  EXPECT_EQ(seen(), kOther);
  EXPECT_EQ(normalisation_of(*data_.train), kOther);
  EXPECT_TRUE(notes.empty());
  float values[2];
  data_.test->read(1, nullptr, values, Type::f32);
  EXPECT_EQ(values[0], (100 - 10) / 5.0f);
}

TEST_F(TrainedData, FineTuningHasThatOfTheWeights) {
  EXPECT_TRUE(begin("cat\ndog", own_).empty());
  const auto notes = begin("cat\ndog", kOther);
  EXPECT_EQ(seen(), kOther);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("normalised"), std::string::npos);
}

TEST_F(TrainedData, WeightsWithoutNormalisationAreNoted) {
  const auto notes = begin("cat\ndog", "");
  EXPECT_EQ(seen(), own_);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("holds no normalisation"), std::string::npos);
}

TEST_F(TrainedData, AnotherNumberOfClassesIsTheReason) {
  const std::string text = error_of([&] { begin("cat\ndog\nfox", own_); });
  EXPECT_NE(text.find("3 classes (cat, dog, fox)"), std::string::npos) << text;
  EXPECT_NE(text.find("2 (cat, dog)"), std::string::npos) << text;
  EXPECT_EQ(text.find("another model"), std::string::npos) << text;
}

TEST_F(TrainedData, OtherClassesAreNoted) {
  const auto notes = begin("dog\nwolf", own_);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("new are cat; missing are wolf"), std::string::npos) << notes[0];
}

TEST_F(TrainedData, ANormalisationOfOtherChannelsNamesItsFile) {
  const std::string text = error_of([&] { begin("", to_text({}, 3)); });
  EXPECT_NE(text.find("first.h5"), std::string::npos) << text;
  EXPECT_NE(text.find("3 channels"), std::string::npos) << text;
}

}  // namespace
}  // namespace lockstep
