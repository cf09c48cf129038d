// tune(): one rank chooses kernels for all ranks and for the next run. The device of this test
// "measures" by counting.
#include "src/device/tuning.h"

#include <gtest/gtest.h>

#include <fstream>

#include "apps/run/run_setup.h"
#include "tests/mpi/world.h"
#include "tests/support/error_of.h"
#include "tests/support/files.h"
#include "tests/support/wrapped_device.h"

namespace lockstep {
namespace {

/// The CPU with a tuning() that maps each planned work to "rank R, number N".
class TuningDevice : public WrappedDevice {
 public:
  explicit TuningDevice(int rank) : rank_(rank) {}

  void plan(const std::string& work) {
    const std::string* known = tuning_.find(work);
    if (tunes_ && (known == nullptr || *known == "gone"))
      tuning_.note((is_late ? Tuning::kUntimed : "") + work,
                   fmt::format("rank {}, number {}", rank_, ++measured));
  }
  std::string tuning() const override { return tuning_.text(); }
  bool set_tuning(std::string_view text) override { return tuning_.set_text(text); }
  std::vector<std::string> tune(bool on) override {
    tunes_ = on;
    return on ? std::vector<std::string>() : std::vector<std::string>{"kernel 7 is wrong"};
  }

  int measured = 0;
  bool is_late = false;  ///< there is no time to measure

 private:
  int rank_;
  bool tunes_ = false;
  Tuning tuning_{"here"};
};

constexpr const char* kTitle = "lockstep tuning for here\n";
const std::string kTwo = std::string(kTitle) + "a = rank 0, number 1\nb = rank 0, number 2\n";

class TuningTest : public testing::Test {
 protected:
  /// A folder of rank 0 for all ranks.
  TuningTest() {
    if (first_) own_.emplace();
    folder_ = comm_.broadcast(own_ ? own_->path().string() : std::string());
  }
  ~TuningTest() override { comm_.barrier(); }

  /// The device of a run that plans `work` with the folder, after the runs before have ended.
  TuningDevice run(const std::vector<std::string>& work, const std::string& before = "") const {
    comm_.barrier();
    TuningDevice device(comm_.rank());
    const auto plan = [&] {
      for (const std::string& each : work) device.plan(each);
    };
    tune(comm_, device, folder_, plan, before);
    comm_.barrier();
    return device;
  }

  const Comm comm_ = world().comm();
  const bool first_ = comm_.rank() == 0;
  std::optional<TemporaryDirectory> own_;
  std::filesystem::path folder_;
};

TEST_F(TuningTest, OneRankMeasuresAndAllPlanAlike) {
  TuningDevice device(comm_.rank());
  tune(comm_, device, {}, [&] { device.plan("a"), device.plan("b"); });
  EXPECT_EQ(device.tuning(), kTwo);
  EXPECT_EQ(device.measured, first_ ? 2 : 0);
  device.plan("c");
  EXPECT_EQ(device.tuning(), kTwo) << "it measured again";
}

TEST_F(TuningTest, TheNextRunMeasuresOnlyNewWork) {
  folder_ /= "new";
  run({"a", "b"});
  const TuningDevice second = run({"a", "b"}), third = run({"b", "c"});
  EXPECT_EQ(second.measured, 0);
  EXPECT_EQ(second.tuning(), kTwo);
  EXPECT_EQ(third.measured, first_ ? 1 : 0);
  EXPECT_EQ(third.tuning(), kTwo + "c = rank 0, number 1\n");
}

TEST_F(TuningTest, ADamagedFileIsReplaced) {
  run({"a", "b"});
  if (first_) {
    const std::vector<std::string> files = own_->names();
    ASSERT_EQ(files.size(), 1u);
    put(folder_ / files[0], std::string(kTitle) + "a = rank 0, number 7\nb = ra");
  }
  EXPECT_EQ(run({"a", "b"}).tuning(), kTwo);
  EXPECT_EQ(run({"a", "b"}).measured, 0);
}

TEST_F(TuningTest, AResumedRunKeepsItsOwn) {
  run({"a"});
  const std::string own = std::string(kTitle) + "a = of the run\n";
  EXPECT_EQ(run({"a", "b"}, own).tuning(), own + "b = rank 0, number 1\n");
  EXPECT_EQ(run({"a"}, "lockstep tuning for elsewhere\na = of the run\n").tuning(),
            std::string(kTitle) + "a = rank 0, number 1\n");
}

TEST_F(TuningTest, AKernelThatIsGoneIsMeasuredAgain) {
  TuningDevice device(comm_.rank());
  const auto plan = [&] { device.plan("a"), device.plan("b"); };
  const std::string before = std::string(kTitle) + "a = gone\nb = kept\n";
  const std::vector<std::string> notes = tune(comm_, device, {}, plan, before);
  ASSERT_EQ(notes.size(), first_ ? 3u : 0u);
  if (first_) {
    EXPECT_EQ(notes[0], "kernel 7 is wrong");
    EXPECT_TRUE(mentions(notes[1], {"chose 1 kernel in "}));
    EXPECT_TRUE(mentions(notes[2], {"no longer offer 1 of"}));
  }
  EXPECT_EQ(device.tuning(), std::string(kTitle) + "a = rank 0, number 1\nb = kept\n");
}

TEST_F(TuningTest, TheNextRunMeasuresWhatThereWasNoTimeFor) {
  const auto run_late = [&](bool late) {
    comm_.barrier();
    TuningDevice device(comm_.rank());
    const auto plan = [&] {
      device.plan("a");
      device.is_late = late;
      device.plan("b");
    };
    const std::vector<std::string> notes = tune(comm_, device, folder_, plan);
    if (first_ && late) {
      EXPECT_TRUE(mentions(notes[1], {"chose 2 kernels in", "1 of them without timing"}));
    }
    comm_.barrier();
    return device.tuning();
  };
  EXPECT_EQ(run_late(true),
            kTitle + std::string("a = rank 0, number 1\nnot timed: b = rank 0, number 2\n"));
  EXPECT_EQ(run_late(false), kTitle + std::string("a = rank 0, number 1\nb = rank 0, number 1\n"));
}

TEST_F(TuningTest, AnErrorOfPlanningIsThrownOnAllRanks) {
  TuningDevice device(comm_.rank());
  EXPECT_THROW(tune(comm_, device, {}, [] { throw Error("there is no kernel for this"); }), Error);
  device.plan("c");
  EXPECT_EQ(device.measured, 0) << "it measured again";
}

TEST_F(TuningTest, ADeviceThatMeasuresNothingPlansNothing) {
  const auto device = make_cpu_device(1);
  tune(comm_, *device, {}, [] { FAIL() << "planned"; });
}

}  // namespace
}  // namespace lockstep
