// Reuters' newswires from reuters.h5: cut and padded as Keras does, and whatever else stands in the
// file, or in its place, is refused in words.
#include "src/data/sets/newswires.h"

#include <gtest/gtest.h>

#include <set>

#include "src/files/hdf5.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Floats = std::vector<float>;

/// A file of three texts: of 302 words, which are their places, of 2 words, and of none.
struct Wires {
  Floats values, offsets{0, 302, 304, 304}, labels{3, 45, 0};
  std::int64_t train = 2;
  bool says_train = true;

  Wires() {
    for (int i = 0; i < 302; ++i) values.push_back(static_cast<float>(i));
    values.insert(values.end(), {30981, 7});
  }
  void write(const fs::path& file) const {
    Hdf5Writer writer(file);
    const auto put = [&](const char* name, const Floats& list) {
      writer.array(name, {std::ssize(list)}, list);
    };
    put("values", values);
    put("offsets", offsets);
    put("labels", labels);
    if (says_train) writer.attribute("train", train);
    writer.commit();
  }
};

std::vector<std::int32_t> text(const Dataset& set, std::int64_t index) {
  std::vector<std::int32_t> words(kNewswireLength, -1);
  set.read(index, nullptr, words.data(), Type::i32);
  return words;
}

class Reuters : public testing::Test {
 protected:
  std::string refusal(const Wires& wires) {
    wires.write(folder_.path() / "reuters.h5");
    return error_of([&] { open_reuters({folder_.path(), 1}); });
  }
  TemporaryDirectory folder_;
};

TEST_F(Reuters, KeepsTheLastWordsAndPadsInFront) {
  Wires().write(folder_.path() / "reuters.h5");
  const OpenedData pair = open_reuters({folder_.path(), 1});
  ASSERT_EQ(pair.train->size(), 2);
  ASSERT_EQ(pair.test->size(), 1);
  EXPECT_EQ(pair.train->sample_shape(), (Shape{1, 300}));
  const std::vector<std::int32_t> lengthy = text(*pair.train, 0), brief = text(*pair.train, 1);
  EXPECT_EQ(lengthy.front(), 2) << "the first two words are cut off";
  EXPECT_EQ(lengthy.back(), 301);
  EXPECT_EQ(std::count(brief.begin(), brief.end(), 0), 298);
  EXPECT_EQ(brief[298], 30981);
  EXPECT_EQ(brief[299], 7);
  EXPECT_EQ(text(*pair.test, 0), std::vector<std::int32_t>(300, 0));
  EXPECT_EQ(pair.train->label(0), 3);
  EXPECT_EQ(pair.train->label(1), 45);
  EXPECT_EQ(pair.test->label(0), 0);
  EXPECT_EQ(pair.train->classes(), 46);
  EXPECT_EQ(pair.train->bytes() + pair.test->bytes(), 4u * (304 + 2 * 3));
}

TEST_F(Reuters, OtherDataHaveAnotherIdentity) {
  std::set<std::string> identities;
  Wires wires;
  const auto see = [&] {
    wires.write(folder_.path() / "reuters.h5");
    EXPECT_TRUE(identities.insert(open_reuters({folder_.path(), 1}).identity).second);
  };
  see();
  wires.values[5] = 6;
  see();
  wires.labels[1] = 44;
  see();
  wires.train = 1;
  see();
}

TEST_F(Reuters, ReportsInvalidContents) {
  const std::string path = (folder_.path() / "reuters.h5").string(),
                    advice = ". Download the data set: scripts/get_data.sh reuters " +
                             folder_.path().string();
  EXPECT_EQ(error_of([&] {
              open_reuters({folder_.path(), 1});
            }),
            "cannot open " + path + ": it does not exist" + advice);
  Wires wires;
  wires.values[302] = 30982;
  EXPECT_EQ(refusal(wires), path +
                                ": number 302 of \"values\" is 30982, not a whole number "
                                "from 0 to 30981" +
                                advice);
  wires = {};
  wires.values[1] = 0.5f;
  EXPECT_NE(refusal(wires).find("number 1 of \"values\" is 0.5"), std::string::npos);
  wires = {};
  wires.labels[0] = 46;
  EXPECT_NE(refusal(wires).find("number 0 of \"labels\" is 46, not a whole number from 0 to 45"),
            std::string::npos);
  wires.labels[0] = -1;
  EXPECT_NE(refusal(wires).find("number 0 of \"labels\" is -1"), std::string::npos);
  wires = {};
  wires.offsets[1] = 303;
  wires.offsets[2] = 302;
  EXPECT_NE(refusal(wires).find("its offsets do not cut its 304 words into texts"),
            std::string::npos);
  wires = {};
  wires.offsets.back() = 303;
  EXPECT_NE(refusal(wires).find("its offsets do not cut"), std::string::npos);
  wires = {};
  wires.labels.push_back(1);
  EXPECT_NE(refusal(wires).find("4 labels and 4 offsets"), std::string::npos);
  wires = {};
  wires.train = 3;
  EXPECT_NE(refusal(wires).find("has 3 of its 3 texts for training"), std::string::npos);
  wires = {};
  wires.says_train = false;
  EXPECT_NE(refusal(wires).find("has no attribute \"train\""), std::string::npos);
}

TEST_F(Reuters, RefusesOtherFiles) {
  put(folder_.path() / "reuters.npz", "PK");
  const std::string refusal = error_of([&] { open_reuters({folder_.path(), 1}); });
  EXPECT_NE(
      refusal.find((folder_.path() / "reuters.npz").string() +
                   " is not converted. Run scripts/convert_reuters.py " +
                   (folder_.path() / "reuters.npz").string() + " " + folder_.path().string() + "."),
      std::string::npos)
      << refusal;
  put(folder_.path() / "reuters.h5", "PK");
  EXPECT_NE(error_of([&] {
              open_reuters({folder_.path(), 1});
            }).find("reuters.h5"),
            std::string::npos);
  Hdf5Writer writer(folder_.path() / "other.h5");
  writer.array("values", {1}, Floats{1});
  writer.commit();
  fs::rename(folder_.path() / "other.h5", folder_.path() / "reuters.h5");
  EXPECT_NE(error_of([&] {
              open_reuters({folder_.path(), 1});
            }).find("has no list \"offsets\""),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep
