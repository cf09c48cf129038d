// States in the memory of hosts. Each rank is the first of a host with a name of its own.
#include "apps/record/state_memory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <optional>

#include "apps/record/run_facts.h"
#include "tests/mpi/world.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"
#include "tests/support/layouts.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

class StatesInMemory : public testing::Test {
 protected:
  StatesInMemory() {
    if (comm_.rank() == 0) owned_.emplace();
    root_ = comm_.broadcast(owned_ ? owned_->path().string() : "");
    memory_.emplace("job", host(comm_.rank()), true, root_);
    memory_->open();
  }
  ~StatesInMemory() override { comm_.barrier(); }

  static std::string host(int rank) { return fmt::format("host{}", rank); }
  /// Keeps the state of `step` on this host. Its weights are `step`.
  void keep(std::int64_t step, const std::string& run = "a", std::size_t count = 10) const {
    const Layout layout = lay_out({{"weights", {static_cast<std::int64_t>(count)}}});
    const std::vector<float> arena(layout.count, static_cast<float>(step));
    RunFacts::Json facts;
    facts["id"] = run;
    memory_->write(layout, {{"parameters", arena.data()}},
                   {{step, step, 0, 1}, {{kFacts, RunFacts(facts).dump()}}});
  }
  std::vector<std::string> names(int rank) const {
    std::vector<std::string> found;
    for (const fs::path& file : list_checkpoints(root_ / ("job-" + host(rank))))
      found.push_back(file.stem());
    return found;
  }
  std::string step_text() const { return contents(memory_->folder() / "step"); }

  const Comm comm_ = world().comm();
  std::optional<TemporaryDirectory> owned_;
  fs::path root_;
  std::optional<StateMemory> memory_;
};

TEST_F(StatesInMemory, AreTheNewestTwo) {
  for (int step = 1; step <= 5; ++step) keep(step);
  EXPECT_EQ(names(comm_.rank()), std::vector<std::string>({"step-0000000005", "step-0000000004"}));
  memory_->begin("a", 4);
  EXPECT_EQ(names(comm_.rank()), std::vector<std::string>({"step-0000000004"}));
  EXPECT_EQ(step_text(), "000000000000004\n");
  memory_->finished(9'999'999);
  memory_->finished(12'345'678);
  EXPECT_EQ(step_text(), "000000012345678\n");
  memory_->begin("b", 4);
  EXPECT_TRUE(names(comm_.rank()).empty()) << "another run's";
  memory_->remove();
  EXPECT_FALSE(fs::exists(memory_->folder()));
}

TEST_F(StatesInMemory, ComeFromTheHostWithTheNewest) {
  const int last = comm_.size() - 1;
  keep(3 + comm_.rank(), "a", 5'000'000);  // more than a piece
  comm_.barrier();
  const FoundState found = find_state(comm_, *memory_, "a", 2);
  if (comm_.rank() == 0) {
    EXPECT_EQ(found.file, memory_->folder() / fmt::format("step-{:010}.h5", 3 + last));
    EXPECT_EQ(contents(found.file),
              contents(root_ / ("job-" + host(last)) / found.file.filename()));
    verify_checkpoint(found.file);
  } else {
    EXPECT_TRUE(found.file.empty());
  }
  EXPECT_TRUE(found.warnings.empty());
  EXPECT_TRUE(find_state(comm_, *memory_, "a", 3 + last).file.empty()) << "the checkpoint is newer";
  EXPECT_TRUE(find_state(comm_, *memory_, "b", 2).file.empty()) << "another run";
  EXPECT_TRUE(find_state(comm_, *memory_, "", 2).file.empty()) << "a new run";
}

TEST_F(StatesInMemory, ThatAreDamagedAreSkipped) {
  keep(6);
  keep(7);
  const fs::path file = memory_->folder() / "step-0000000007.h5";
  std::string bytes = contents(file);
  bytes[bytes.find(std::string("\0\0\xe0\x40\0\0\xe0\x40", 8))] ^= 1;  // a weight 7.0
  put(file, bytes);
  comm_.barrier();
  const FoundState found = find_state(comm_, *memory_, "a", 2);
  if (comm_.rank() != 0) return;
  EXPECT_EQ(found.file, memory_->folder() / "step-0000000006.h5");
  ASSERT_EQ(found.warnings.size(), static_cast<std::size_t>(comm_.size()));
  EXPECT_TRUE(mentions(found.warnings.front(), {"skipping", "step-0000000007.h5"}));
}

TEST_F(StatesInMemory, KeepTheNewestIfMemoryIsFull) {
  keep(1);
  keep(2);
  {
    const FileSizeLimit full(100);
    EXPECT_ANY_THROW(keep(3));
  }
  EXPECT_EQ(names(comm_.rank()), std::vector<std::string>({"step-0000000002"}));
  EXPECT_EQ(std::distance(fs::directory_iterator(memory_->folder()), {}), 1) << "no temporary";
}

TEST_F(StatesInMemory, NeedAFolderThatOnlyThisUserMayEnter) {
  EXPECT_EQ(fs::status(memory_->folder()).permissions(), fs::perms::owner_all);
  fs::permissions(memory_->folder(), fs::perms::group_exec, fs::perm_options::add);
  EXPECT_TRUE(mentions(error_of([&] { memory_->open(); }), {"job-host", "LOCKSTEP_MEMORY"}));
  fs::create_directory_symlink(root_, root_ / ("link-" + host(comm_.rank())));
  const StateMemory link("link", host(comm_.rank()), true, root_);
  EXPECT_TRUE(mentions(error_of([&] { link.open(); }), {"link-host", "LOCKSTEP_MEMORY"}));
}

TEST_F(StatesInMemory, HaveAValidName) {
  ::setenv("LOCKSTEP_MEMORY", "a/b", 1);
  expect_agreed_error({"a/b", "letters"}, [&] { open_state_memory(comm_); });
  ::unsetenv("LOCKSTEP_MEMORY");
  EXPECT_EQ(open_state_memory(comm_), nullptr);
}

}  // namespace
}  // namespace lockstep
