// Reuters' newswires from reuters.h5: cut and padded as Keras does, and whatever else stands in the
// file, or in its place, is refused in words.
#include "src/data/sets/newswires.h"

#include <gtest/gtest.h>

#include <set>

#include "src/files/hdf5.h"
#include "tests/support/expect_error.h"
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
  OpenedData open() const { return open_reuters({{{folder_.path()}}}); }
  /// The error about a file of `wires` after a change.
  std::string refusal(const std::function<void(Wires&)>& change) {
    Wires wires;
    change(wires);
    wires.write(file_);
    return error_of([&] { open(); });
  }
  TemporaryDirectory folder_;
  const fs::path file_ = folder_ / "reuters.h5";
};

TEST_F(Reuters, KeepsTheLastWordsAndPadsInFront) {
  Wires().write(file_);
  const OpenedData pair = open();
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
  EXPECT_EQ(pair.train->bytes() + pair.test->bytes(), 4u * (304 + 3 * 3));
}

TEST_F(Reuters, OtherDataHaveAnotherIdentity) {
  std::set<std::string> identities;
  Wires wires;
  const auto see = [&] {
    wires.write(file_);
    EXPECT_TRUE(identities.insert(open().identity).second);
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
  const std::string path = file_.string(),
                    advice = ". Download the data set: scripts/get_data.sh reuters " +
                             folder_.path().string();
  EXPECT_EQ(error_of([&] { open(); }), "cannot open " + path + ": it does not exist" + advice);
  EXPECT_EQ(
      refusal([](Wires& w) { w.values[302] = 30982; }),
      path + ": number 302 of \"values\" is 30982, not a whole number from 0 to 30981" + advice);
  struct Case {
    std::function<void(Wires&)> change;
    const char* words;
  };
  const std::vector<Case> cases{
      {[](Wires& w) { w.values[1] = 0.5f; }, "number 1 of \"values\" is 0.5"},
      {[](Wires& w) { w.labels[0] = 46; },
       "number 0 of \"labels\" is 46, not a whole number from 0 to 45"},
      {[](Wires& w) { w.labels[0] = -1; }, "number 0 of \"labels\" is -1"},
      {[](Wires& w) { w.offsets[1] = 303, w.offsets[2] = 302; },
       "its offsets do not cut its 304 words into texts"},
      {[](Wires& w) { w.offsets.back() = 303; }, "its offsets do not cut"},
      {[](Wires& w) { w.labels.push_back(1); }, "4 labels and 4 offsets"},
      {[](Wires& w) { w.train = 3; }, "has 3 of its 3 texts for training"},
      {[](Wires& w) { w.says_train = false; }, "has no attribute \"train\""}};
  for (const auto& [change, words] : cases) EXPECT_TRUE(mentions(refusal(change), {words}));
}

TEST_F(Reuters, RefusesOtherFiles) {
  const std::string npz = folder_ / "reuters.npz";
  put(npz, "PK");
  expect_error({npz + " is not converted. Run scripts/convert_reuters.py " + npz + " " +
                folder_.path().string() + "."},
               [&] { open(); });
  put(file_, "PK");
  expect_error({"reuters.h5"}, [&] { open(); });
  fs::remove(file_);
  Hdf5Writer writer(file_);
  writer.array("values", {1}, Floats{1});
  writer.commit();
  expect_error({"has no list \"offsets\""}, [&] { open(); });
}

}  // namespace
}  // namespace lockstep
