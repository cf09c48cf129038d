// tune(): one rank chooses kernels for all ranks and for the next run. The device of this test
// "measures" by counting.
#include "src/device/tuning.h"

#include <gtest/gtest.h>

#include <fstream>

#include "apps/run/run_setup.h"
#include "tests/mpi/world.h"
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
      tuning_.note(work, fmt::format("rank {}, number {}", rank_, ++measured));
  }
  std::string tuning() const override { return tuning_.text(); }
  bool set_tuning(std::string_view text) override { return tuning_.set_text(text); }
  void tune(bool on) override { tunes_ = on; }

  int measured = 0;

 private:
  int rank_;
  bool tunes_ = false;
  Tuning tuning_{"here"};
};

constexpr const char* kTwo =
    "lockstep tuning for here\na = rank 0, number 1\nb = rank 0, number 2\n";

/// A folder of rank 0 for all ranks.
struct Shared {
  explicit Shared(const Comm& c) : comm(c) {
    if (comm.rank() == 0) own.emplace();
    path = comm.broadcast(own ? own->path().string() : std::string());
  }
  ~Shared() { comm.barrier(); }
  const Comm& comm;
  std::optional<TemporaryDirectory> own;
  std::filesystem::path path;
};

TEST(Tuning, OneRankMeasuresAndAllPlanAlike) {
  const Comm comm = world().comm();
  TuningDevice device(comm.rank());
  const auto plan = [&] { device.plan("a"), device.plan("b"); };
  tune(comm, device, {}, plan);
  EXPECT_EQ(device.tuning(), kTwo);
  EXPECT_EQ(device.measured, comm.rank() == 0 ? 2 : 0);
  device.plan("c");
  EXPECT_EQ(device.tuning(), kTwo) << "it measured again";
}

TEST(Tuning, TheNextRunMeasuresOnlyNewWork) {
  const Comm comm = world().comm();
  const Shared folder(comm);
  TuningDevice first(comm.rank()), second(comm.rank()), third(comm.rank());
  tune(comm, first, folder.path / "new", [&] { first.plan("a"), first.plan("b"); });
  comm.barrier();
  tune(comm, second, folder.path / "new", [&] { second.plan("a"), second.plan("b"); });
  EXPECT_EQ(second.measured, 0);
  EXPECT_EQ(second.tuning(), kTwo);
  tune(comm, third, folder.path / "new", [&] { third.plan("b"), third.plan("c"); });
  EXPECT_EQ(third.measured, comm.rank() == 0 ? 1 : 0);
  EXPECT_EQ(third.tuning(), std::string(kTwo) + "c = rank 0, number 1\n");
}

TEST(Tuning, ADamagedFileIsReplaced) {
  const Comm comm = world().comm();
  const Shared folder(comm);
  TuningDevice first(comm.rank()), second(comm.rank()), third(comm.rank());
  tune(comm, first, folder.path, [&] { first.plan("a"), first.plan("b"); });
  if (comm.rank() == 0) {
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path)) {
      std::ofstream(entry.path()) << "lockstep tuning for here\na = rank 0, number 7\nb = ra";
      ++files;
    }
    EXPECT_EQ(files, 1);
  }
  comm.barrier();
  tune(comm, second, folder.path, [&] { second.plan("a"), second.plan("b"); });
  EXPECT_EQ(second.tuning(), kTwo);
  comm.barrier();
  tune(comm, third, folder.path, [&] { third.plan("a"), third.plan("b"); });
  EXPECT_EQ(third.measured, 0);
}

TEST(Tuning, AResumedRunKeepsItsOwn) {
  const Comm comm = world().comm();
  const Shared folder(comm);
  TuningDevice first(comm.rank()), second(comm.rank()), third(comm.rank());
  tune(comm, first, folder.path, [&] { first.plan("a"); });
  comm.barrier();
  const std::string own = "lockstep tuning for here\na = of the run\n";
  tune(
      comm, second, folder.path, [&] { second.plan("a"), second.plan("b"); }, own);
  EXPECT_EQ(second.tuning(), own + "b = rank 0, number 1\n");
  comm.barrier();
  const std::string theirs = "lockstep tuning for elsewhere\na = of the run\n";
  tune(
      comm, third, folder.path, [&] { third.plan("a"); }, theirs);
  EXPECT_EQ(third.tuning(), "lockstep tuning for here\na = rank 0, number 1\n");
}

TEST(Tuning, AKernelThatIsGoneIsMeasuredAgain) {
  const Comm comm = world().comm();
  TuningDevice device(comm.rank());
  const auto plan = [&] { device.plan("a"), device.plan("b"); };
  const std::string before = "lockstep tuning for here\na = gone\nb = kept\n";
  EXPECT_EQ(tune(comm, device, {}, plan, before), comm.rank() == 0 ? 1 : 0);
  EXPECT_EQ(device.tuning(), "lockstep tuning for here\na = rank 0, number 1\nb = kept\n");
}

TEST(Tuning, AnErrorOfPlanningIsThrownOnAllRanks) {
  const Comm comm = world().comm();
  TuningDevice device(comm.rank());
  EXPECT_THROW(tune(comm, device, {}, [] { throw Error("there is no kernel for this"); }), Error);
  device.plan("c");
  EXPECT_EQ(device.measured, 0) << "it measured again";
}

TEST(Tuning, ADeviceThatMeasuresNothingPlansNothing) {
  const Comm comm = world().comm();
  const auto device = make_cpu_device(1);
  tune(comm, *device, {}, [] { FAIL() << "planned"; });
}

}  // namespace
}  // namespace lockstep
