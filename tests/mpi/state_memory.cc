// States in the memory of hosts. Each rank is the first of a host with a name of its own.
#include "apps/record/state_memory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <optional>

#include "apps/record/kept_states.h"
#include "apps/record/run_facts.h"
#include "apps/step/snapshot.h"
#include "tests/mpi/world.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"
#include "tests/support/layouts.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

CheckpointMetadata metadata_of(std::int64_t step, const std::string& run) {
  RunFacts::Json facts;
  facts["id"] = run;
  return {{step, step, 0, 1}, {{kFacts, RunFacts(facts).dump()}, {"text", "\x01 \xff"}}};
}

class StatesInMemory : public testing::Test {
 protected:
  StatesInMemory() {
    if (comm_.rank() == 0) owned_.emplace();
    root_ = comm_.broadcast(owned_ ? owned_->path().string() : "");
    fs::create_directories(root_ / "run/checkpoints");
    comm_.barrier();
    memory_.emplace(place("a"));
    memory_->open();
  }
  ~StatesInMemory() override { comm_.barrier(); }

  static std::string host(int rank) { return fmt::format("host{}", rank); }
  StatePlace place(const std::string& run, int rank = -1) const {
    return {run, root_ / "run", host(rank < 0 ? comm_.rank() : rank), true, root_};
  }
  /// Writes the state of `step` as the ranks of this host would. Its weights are `step`.
  void keep(std::int64_t step, std::size_t count = 10) const {
    const Layout layout = lay_out({{"weights", {static_cast<std::int64_t>(count)}}});
    const std::vector<float> arena(layout.count, static_cast<float>(step));
    const std::vector<ConstSection> sections{{"parameters", arena.data()}};
    const std::string text = state_text(layout, sections, metadata_of(step, "a"));
    SnapshotMarks marks{.magic = SnapshotMarks::kMagic,
                        .places = {1000, arena.size() * sizeof(float), 2},
                        .copy = {}};
    const SnapshotPlaces& places = marks.places;
    std::string bytes = is_gone(memory_->file()) ? "" : contents(memory_->file());
    if (bytes.size() == places.bytes()) {
      std::memcpy(&marks, bytes.data(), sizeof marks);
    } else {
      bytes.assign(places.bytes(), '\0');
    }
    const std::uint64_t copy = static_cast<std::uint64_t>(step) % 2;
    marks.copy[copy] = {static_cast<std::uint64_t>(step), text.size(), print_of(layout, sections)};
    std::memcpy(bytes.data(), &marks, sizeof marks);
    std::memcpy(bytes.data() + places.text_at(copy), text.data(), text.size());
    std::memcpy(bytes.data() + places.arenas_at(copy), arena.data(), places.arenas);
    put(memory_->file(), bytes);
  }
  /// Changes the last weight of the state of `step`.
  void damage(std::int64_t step) const {
    const Layout layout = lay_out({{"weights", {10}}});
    const SnapshotPlaces places{1000, static_cast<std::uint64_t>(layout.count) * sizeof(float), 2};
    std::string bytes = contents(memory_->file());
    const std::int64_t place = layout.parameters.front().range.end() - 1;
    bytes[places.arenas_at(static_cast<std::uint64_t>(step) % 2) + place * sizeof(float)] ^= 1;
    put(memory_->file(), bytes);
  }
  FoundState find(std::int64_t after, const std::string& run = "a") const {
    return find_state(comm_, place(run), after);
  }

  const Comm comm_ = world().comm();
  std::optional<TemporaryDirectory> owned_;
  fs::path root_;
  std::optional<StateMemory> memory_;
};

TEST_F(StatesInMemory, ComeFromTheHostWithTheNewest) {
  const int last = comm_.size() - 1;
  keep(2);
  keep(3 + comm_.rank(), 5'000'000);  // more than a piece
  comm_.barrier();
  const FoundState found = find(2);
  if (comm_.rank() == 0) {
    const fs::path name = fmt::format("step-{:010}.h5", 3 + last);
    EXPECT_EQ(found.file, memory_->folder() / name);
    EXPECT_EQ(contents(found.file), contents(place("a", last).folder() / name));
    verify_checkpoint(found.file);
    EXPECT_EQ(read_metadata(found.file).position, metadata_of(3 + last, "a").position);
  } else {
    EXPECT_TRUE(found.file.empty());
  }
  EXPECT_TRUE(found.warnings.empty());
  EXPECT_TRUE(is_gone(memory_->file())) << "two states would need memory";
  const FoundState again = find(2);  // the start ended before its first state
  if (comm_.rank() == 0) {
    EXPECT_EQ(again.file, found.file);
  }
  EXPECT_TRUE(find(3 + last).file.empty()) << "the checkpoint is newer";
  EXPECT_TRUE(find(2, "b").file.empty()) << "another run";
  EXPECT_TRUE(find(2, "").file.empty()) << "a new run";
}

TEST_F(StatesInMemory, ThatAreDamagedAreSkipped) {
  keep(6);
  keep(7);
  damage(7);
  comm_.barrier();
  const FoundState found = find(2);
  if (comm_.rank() == 0) {
    EXPECT_EQ(found.file, memory_->folder() / "step-0000000006.h5");
  }
  EXPECT_TRUE(found.warnings.empty()) << "the last one may be torn";
  keep(8);
  damage(8);
  comm_.barrier();
  const FoundState none = find(6);
  if (comm_.rank() != 0) return;
  EXPECT_TRUE(none.file.empty());
  ASSERT_EQ(none.warnings.size(), static_cast<std::size_t>(comm_.size()));
  EXPECT_TRUE(mentions(none.warnings.front(), {"skipping", "states", "checksum"}));
}

TEST_F(StatesInMemory, AreTheCopiesOfASnapshot) {
  const Layout layout = lay_out({{"weights", {70'000}}, {"statistic", {3}, 0, 0.5f}});
  std::vector<float> weights(layout.count), slots(layout.count), wire(layout.count, 0.25f);
  const StatePlace one{"a", root_ / "run", "one", comm_.rank() == 0, root_};
  StateMemory memory(one);
  memory.open();
  comm_.barrier();
  const std::size_t arenas = 3 * layout.count * sizeof(float);
  Snapshot snapshot(comm_, arenas, 1, 4096, memory.file());
  const auto take = [&](std::int64_t step, bool spares, bool seals) {
    std::ranges::fill(weights, static_cast<float>(step));
    std::ranges::fill(slots, static_cast<float>(-step));
    const std::vector<ConstSection> state{{"parameters", weights.data()},
                                          {"optimizer/m", slots.data(), true}},
        more{{"wire/0", wire.data()}};
    snapshot.take(layout, state, step,
                  spares ? Snapshot::Purpose::spare : Snapshot::Purpose::state);
    std::vector<ConstSection> all = state;
    all.insert(all.end(), more.begin(), more.end());
    if (one.first && seals) {
      EXPECT_TRUE(snapshot.seal(layout, more, state_text(layout, all, metadata_of(step, "a"))));
    }
    comm_.barrier();
  };
  int checks = 0;
  const auto expect_found = [&](std::int64_t step) {
    StatePlace copy = one;
    copy.host = fmt::format("copy{}", ++checks);
    if (one.first) {
      fs::create_directory(copy.folder());
      fs::permissions(copy.folder(), fs::perms::owner_all);
      fs::copy(memory.file(), copy.folder());
    }
    const FoundState found = find_state(comm_, copy, 0);
    if (!one.first) return;
    ASSERT_EQ(found.file.filename(), checkpoint_name(step));
    std::vector<float> read(layout.count), m(layout.count), w(layout.count);
    Checkpoint(found.file)
        .load(layout,
              {{"parameters", read.data()}, {"optimizer/m", m.data(), true}, {"wire/0", w.data()}});
    const std::int64_t at = layout.parameters[0].range.end() - 1;
    EXPECT_EQ(read[at], static_cast<float>(step));
    EXPECT_EQ(m[at], static_cast<float>(-step));
    EXPECT_EQ(w[at], 0.25f);
  };
  take(1, false, true);
  take(2, false, true);
  expect_found(2);
  take(3, false, false);  // the ranks end before it is whole
  if (one.first) {
    EXPECT_FALSE(snapshot.seal(layout, {}, std::string(5000, ' '))) << "too long";
  }
  expect_found(2);
}

TEST_F(StatesInMemory, SpareTheOneThatIsBeingWritten) {
  const Layout layout = lay_out({{"weights", {100}}});
  std::vector<float> weights(layout.count);
  const std::string file = root_ / "states";
  Snapshot snapshot(comm_, layout.count * sizeof(float), 1, 100, file);
  const auto take = [&](float value, bool spares) {
    comm_.barrier();
    std::ranges::fill(weights, value);
    snapshot.take(layout, {{"parameters", weights.data()}}, 1,
                  spares ? Snapshot::Purpose::spare : Snapshot::Purpose::checkpoint);
    return snapshot.sections().front().arena[layout.parameters[0].range.begin];
  };
  EXPECT_EQ(take(1, false), 1);
  const float* const written = snapshot.sections().front().arena + layout.parameters[0].range.begin;
  EXPECT_EQ(take(2, true), 2);
  EXPECT_EQ(take(3, true), 3);
  EXPECT_EQ(*written, 1) << "a checkpoint is being written from it";
  comm_.barrier();
  EXPECT_EQ(take(4, false), 4);
  EXPECT_EQ(*written, 4) << "the older one";
}

TEST_F(StatesInMemory, NeedAFolderThatOnlyThisUserMayEnter) {
  EXPECT_EQ(fs::status(memory_->folder()).permissions(), fs::perms::owner_all);
  keep(3);
  fs::permissions(memory_->folder(), fs::perms::group_exec, fs::perm_options::add);
  comm_.barrier();
  const FoundState found = find(0);
  EXPECT_TRUE(found.file.empty()) << "anybody could have written it";
  if (comm_.rank() == 0) {
    EXPECT_TRUE(mentions(found.warnings.at(0), {"skipping", "only this user"}));
  }
  StateMemory open(place("a"));
  EXPECT_TRUE(mentions(error_of([&] { open.open(); }), {"lockstep-run", "only this user"}));
  const StatePlace linked = place("link");
  fs::create_directory_symlink(root_, linked.folder());
  StateMemory link(linked);
  EXPECT_TRUE(mentions(error_of([&] { link.open(); }), {"lockstep-run", "only this user"}));
  fs::permissions(memory_->folder(), fs::perms::owner_all);
}

TEST_F(StatesInMemory, BelongToOneProcess) {
  StateMemory second(place("a"));
  EXPECT_TRUE(mentions(error_of([&] { second.open(); }), {"another process"}));
  EXPECT_NE(place("a").folder(), place("b").folder());
  StatePlace moved = place("a");
  moved.place = root_ / "copy";
  EXPECT_NE(moved.folder(), place("a").folder()) << "a copy of a run is another run";
}

TEST_F(StatesInMemory, TellTheStepToLockstepRun) {
  ::setenv("LOCKSTEP_SUPERVISOR", "4711", 1);
  memory_->begin(4);
  ::unsetenv("LOCKSTEP_SUPERVISOR");
  const fs::path file = memory_->folder() / "step.4711";
  EXPECT_EQ(contents(file), "000000000000004\n" + (root_ / "run").string());
  memory_->finished(9'999'999);
  memory_->finished(12'345'678);
  EXPECT_TRUE(contents(file).starts_with("000000012345678\n"));
  memory_->remove();
  EXPECT_FALSE(fs::exists(memory_->folder()));
}

TEST_F(StatesInMemory, AreRemovedWhenTheyAreOfNoUse) {
  const auto remains = [&](const std::function<void()>& change) {
    keep(5);
    memory_->sealed();
    memory_.reset();  // its process has ended
    comm_.barrier();
    change();
    comm_.barrier();
    remove_stale_states(root_);
    comm_.barrier();
    const bool result = fs::exists(place("a").folder());
    memory_.emplace(place("a"));
    memory_->open();
    return result;
  };
  EXPECT_TRUE(remains([] {}));
  EXPECT_TRUE(remains([&] { put(root_ / "run/checkpoints" / checkpoint_name(4), ""); }));
  EXPECT_FALSE(remains([&] { put(root_ / "run/checkpoints" / checkpoint_name(5), ""); }));
  std::error_code none;
  fs::remove(root_ / "run/checkpoints" / checkpoint_name(5), none);
  comm_.barrier();
  keep(5);
  memory_->sealed();
  comm_.barrier();
  remove_stale_states(root_);
  EXPECT_TRUE(fs::exists(memory_->folder())) << "its process lives";
  comm_.barrier();
  EXPECT_FALSE(remains([&] {
    if (comm_.rank() == 0) fs::remove_all(root_ / "run");
  }));
}

TEST_F(StatesInMemory, LeaveNoEmptyFolder) {
  memory_.reset();
  EXPECT_FALSE(fs::exists(place("a").folder()));
}

}  // namespace
}  // namespace lockstep
