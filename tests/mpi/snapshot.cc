// A snapshot is the state, bit for bit, on any number of ranks and threads. It compares the ranks.
#include "apps/step/snapshot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "tests/mpi/world.h"
#include "tests/support/files.h"
#include "tests/support/layouts.h"

namespace lockstep {
namespace {

/// Parameters of more and of fewer floats than a rank copies at once.
const Layout& layout() {
  static const Layout result =
      lay_out({{"dense/weights", {300, 400}}, {"dense/biases", {3}}, {"last/weights", {97, 701}}});
  return result;
}

/// Three arenas of different values.
class State {
 public:
  State() {
    for (std::size_t i = 0; i < arenas_.size(); ++i) {
      arenas_[i].resize(layout().count);
      for (std::size_t j = 0; j < arenas_[i].size(); ++j)
        arenas_[i][j] = 0.25f * static_cast<float>(j + 7919 * i);
    }
  }
  std::vector<ConstSection> sections() const {
    return {{"parameters", arenas_[0].data()},
            {"optimizer/m", arenas_[1].data(), true},
            {"ema", arenas_[2].data()}};
  }
  float& value(std::size_t section, std::size_t parameter, std::int64_t place) {
    return arenas_[section][layout().parameters[parameter].range.begin + place];
  }
  std::size_t bytes() const { return arenas_.size() * layout().count * sizeof(float); }

 private:
  std::array<std::vector<float>, 3> arenas_;
};

bool same(const std::vector<ConstSection>& a, const std::vector<ConstSection>& b) {
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (a[i].name != b[i].name || a[i].trained_only != b[i].trained_only) return false;
    for (const Parameter& parameter : layout().parameters) {
      const float* const from = b[i].arena + parameter.range.begin;
      if (!std::equal(from, from + parameter.range.count, a[i].arena + parameter.range.begin))
        return false;
    }
  }
  return a.size() == b.size();
}

class Snapshots : public testing::TestWithParam<int> {
 protected:
  const Comm comm_ = world().comm();
  State state_;
  TemporaryDirectory folder_;
  Snapshot snapshot_{comm_, state_.bytes(), GetParam(), 100,
                     comm_.broadcast((folder_.path() / "states").string())};
};

TEST_P(Snapshots, AreTheStateOfTheStep) {
  EXPECT_EQ(snapshot_.take(layout(), state_.sections(), 1), "");
  EXPECT_TRUE(same(snapshot_.sections(), state_.sections()));
  State former = state_;
  for (int section = 0; section < 3; ++section) state_.value(section, 2, 60'000) = -1;
  comm_.barrier();
  EXPECT_TRUE(same(snapshot_.sections(), former.sections())) << "a later step does not change it";
  comm_.barrier();
  EXPECT_EQ(snapshot_.take(layout(), state_.sections(), 2), "");
  EXPECT_TRUE(same(snapshot_.sections(), state_.sections()));
}

TEST_P(Snapshots, NameTheRankThatDiffers) {
  if (comm_.size() == 1) GTEST_SKIP();
  const int odd = comm_.size() - 1;
  if (comm_.rank() == odd) state_.value(2, 1, 2) += 1;
  expect_agreed_error({"step 5", fmt::format("rank {}", odd), "ema/dense/biases"},
                      [&] { snapshot_.take(layout(), state_.sections(), 5); });
}

TEST_P(Snapshots, NameTheFirstSectionThatIsNotFinite) {
  state_.value(2, 0, 0) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(snapshot_.take(layout(), state_.sections(), 1), "ema");
  state_.value(1, 2, 97 * 701 - 1) = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(snapshot_.take(layout(), state_.sections(), 1), "optimizer/m");
}

INSTANTIATE_TEST_SUITE_P(Threads, Snapshots, testing::Values(1, 3));

}  // namespace
}  // namespace lockstep
