// World, Comm, agreement, clocks: every rank sees the same outcome.
#include "collectives/comm/comm.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <system_error>

#include "collectives/comm/communicator.h"
#include "collectives/comm/flight_recorder.h"
#include "collectives/node/node_memory.h"
#include "tests/mpi/world.h"
#include "tests/support/error_of.h"

namespace {
int unlinked_unlocked = 0;  ///< files of shared memory on this rank
}  // namespace

/// Replaces the C library's for the library in this program.
extern "C" int shm_unlink(const char* name) {
  const std::string path = std::string("/dev/shm") + name;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  unlinked_unlocked += ::flock(file, LOCK_EX | LOCK_NB) == 0;
  ::close(file);
  return ::unlink(path.c_str());
}

namespace lockstep {
namespace {

TEST(Comm, SumsAndExtremesOverAllRanks) {
  const Comm comm = world().comm();
  const std::int64_t size = comm.size();
  EXPECT_EQ(comm.sum(comm.rank() + 1), size * (size + 1) / 2);
  EXPECT_EQ(comm.min(std::int64_t{1} << (40 + comm.rank())), std::int64_t{1} << 40);
  EXPECT_EQ(comm.max(comm.rank()), size - 1);
}

TEST(Comm, BroadcastsAndGathersTextsOfAnyLength) {
  const Comm comm = world().comm();
  const int last = comm.size() - 1;
  EXPECT_EQ(comm.broadcast(comm.rank() == last ? "from the last" : "not this", last),
            "from the last");
  EXPECT_EQ(comm.broadcast(comm.rank() == 0 ? "" : "not this"), "");

  const auto texts = comm.gather(std::string(static_cast<std::size_t>(comm.rank()) * 3, 'x'));
  ASSERT_EQ(texts.size(), comm.rank() == 0 ? static_cast<std::size_t>(comm.size()) : 0u);
  for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(texts[i], std::string(i * 3, 'x'));
}

TEST(Comm, GathersTextsWithMoreBytesThanMpiCanCount) {
  const Comm comm = world().comm().with_largest_message(12);
  const auto text_of = [](int rank) {
    std::string text;
    for (int i = 0; i < 7 * rank + 40 * (rank == 1); ++i)
      text += static_cast<char>('a' + (rank + i) % 26);
    return text;
  };
  const std::vector<std::string> texts = comm.gather(text_of(comm.rank()));
  for (int rank = 0; rank < std::ssize(texts); ++rank) EXPECT_EQ(texts[rank], text_of(rank));
  EXPECT_EQ(texts.size(), comm.rank() == 0 ? static_cast<std::size_t>(comm.size()) : 0u);
}

template <class T>
std::vector<T> values_of(int rank, std::size_t count) {
  std::vector<T> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(static_cast<T>(100 * rank + 7 * i));
  return values;
}

template <class T>
void expect_broadcast(const Comm& comm, std::size_t count) {
  const int root = comm.size() - 1;
  std::vector<T> values = values_of<T>(comm.rank(), count);
  comm.broadcast(std::span(values), root);
  EXPECT_EQ(values, values_of<T>(root, count));
}

TEST(Comm, SumsBroadcastsAndGathersMoreElementsThanMpiCanCount) {
  const int ranks = world().comm().size();
  EXPECT_LT(world().comm().largest_message(), std::size_t{1} << 31);
  for (const std::size_t largest : {std::size_t{3}, world().comm().largest_message()}) {
    const Comm comm = world().comm().with_largest_message(largest);
    EXPECT_EQ(comm.duplicate().largest_message(), largest);
    for (const std::size_t count : {0, 1, 3, 10, 99}) {
      expect_broadcast<std::int64_t>(comm, count);
      expect_broadcast<std::uint64_t>(comm, count);
      expect_broadcast<float>(comm, count);
      expect_broadcast<double>(comm, count);
      EXPECT_EQ(comm.broadcast(std::string(count, comm.rank() == 0 ? 'a' : 'b')),
                std::string(count, 'a'));

      std::vector<std::int64_t> sums = values_of<std::int64_t>(comm.rank(), count), expected(count);
      std::vector<std::uint64_t> all;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto of_rank = values_of<std::uint64_t>(rank, count);
        for (std::size_t i = 0; i < count; ++i)
          expected[i] += static_cast<std::int64_t>(of_rank[i]);
        all.insert(all.end(), of_rank.begin(), of_rank.end());
      }
      comm.sum(sums);
      EXPECT_EQ(sums, expected);
      const std::vector<std::uint64_t> own = values_of<std::uint64_t>(comm.rank(), count);
      EXPECT_EQ(comm.all_gather(std::span(own)), all);
    }
  }
}

int freed = 0;
int count_freed(MPI_Comm, int, void*, void*) {
  ++freed;
  return MPI_SUCCESS;
}

TEST(Comm, IsFreedWithTheLastCopyButNotWhileAnExceptionUnwinds) {
  int key = MPI_KEYVAL_INVALID;
  check(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, count_freed, &key, nullptr));
  freed = 0;
  const auto made = [key] {
    const Comm comm = world().comm().duplicate();
    check(MPI_Comm_set_attr(raw(comm), key, nullptr));
    return comm;
  };
  {
    std::optional<Comm> first = made();
    const Comm second = *first;
    first.reset();
    EXPECT_EQ(freed, 0);
    second.barrier();
  }
  EXPECT_EQ(freed, 1);
  try {
    const Comm comm = made();
    throw Error("alone");
  } catch (const Error&) {
  }
  EXPECT_EQ(freed, 1);
  check(MPI_Comm_free_keyval(&key));
}

TEST(Comm, AllRanksOfThisTestShareOneNode) {
  const Comm node = world().comm().node();
  EXPECT_EQ(node.size(), world().comm().size());
  EXPECT_EQ(node.rank(), world().comm().rank());
}

TEST(Comm, ErrorsReturnAsExceptions) {
  int value = 0;
  EXPECT_THROW(check(MPI_Send(&value, 1, MPI_INT, world().comm().size(), 0, raw(world().comm()))),
               Error);
}

TEST(NodeMemory, IsSharedAlignedAndZeroed) {
  const Comm node = world().comm().node();
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{5000}, std::size_t{1} << 20}) {
    const NodeMemory memory(node, node, bytes, "this test");
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 4096, 0u);
    ASSERT_GE(memory.bytes(), bytes);
    for (std::size_t i = 0; i < memory.bytes(); ++i) ASSERT_EQ(memory.data()[i], std::byte{0});
    node.barrier();
    if (node.rank() == node.size() - 1) memory.data()[bytes - 1] = std::byte{42};
    node.barrier();
    EXPECT_EQ(memory.data()[bytes - 1], std::byte{42});
    node.barrier();
  }
}

TEST(NodeMemory, RemovesFilesOfKilledRuns) {
  const Comm node = world().comm().node();
  if (node.size() == 1) return;  // needs no file
  namespace fs = std::filesystem;
  const std::string name = node.broadcast(fmt::format("-of-test-{}", ::getpid()));
  int gone = 0;
  if (node.rank() == 0) {
    gone = ::fork();
    if (gone == 0) ::_exit(0);
    ::waitpid(gone, nullptr, 0);
  }
  const auto file = [&](std::int64_t pid, const char* what) {
    return fs::path(fmt::format("/dev/shm/lockstep-{}{}{}", pid, name, what));
  };
  const fs::path left = file(gone, "left"), held = file(gone, "held"), owned = file(::getpid(), "");
  int lock = -1;
  if (node.rank() == 0) {
    for (const fs::path& path : {left, held, owned}) {
      std::ofstream(path) << "left";
      // Clocks may have been set since.
      fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
    }
    lock = ::open(held.c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_EQ(::flock(lock, LOCK_SH), 0);
  }
  unlinked_unlocked = 0;
  const NodeMemory memory(node, node, 1, "this test");
  ::close(lock);
  if (node.rank() == 0) {
    EXPECT_FALSE(fs::exists(left)) << "of a process that is gone";
    EXPECT_TRUE(fs::remove(held)) << "of another container";
    EXPECT_TRUE(fs::remove(owned)) << "of a running process";
    EXPECT_EQ(unlinked_unlocked, 0) << "processes of other containers leave this one alone";
  }
}

TEST(NodeMemory, RefusesTooManyBytesOnAllRanks) {
  const Comm node = world().comm().node();
  if (node.size() == 1) return;
  expect_agreed_error({"the reducer shared", "/dev/shm"},
                      [&] { NodeMemory(node, node, std::size_t{1} << 50, "the reducer shared"); });
}

TEST(Agree, DoesNothingWithoutErrors) {
  int calls = 0;
  agree(world().comm(), [&] { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST(Agree, AllRanksThrowTheErrorOfTheLowestThatFailed) {
  const Comm comm = world().comm();
  for (int first = 0; first < comm.size(); ++first) {
    try {
      agree(comm, [&] {
        if (comm.rank() >= first) throw Error("no disk at " + std::to_string(comm.rank()), 7);
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const AgreedError& error) {
      const std::string line = "no disk at " + std::to_string(first);
      const std::string who = first == 0 ? "" : fmt::format("rank {} ({}): ", first, host_name());
      EXPECT_EQ(error.what(), who + line);
      EXPECT_EQ(error.exit_code(), 7);
    }
  }
}

TEST(Agree, SupportsAnyException) {
  const auto message = [](const std::function<void()>& body) {
    return agreed_error_of([&] { agree(world().comm(), body); });
  };
  EXPECT_TRUE(mentions(message([] { throw std::out_of_range("far out"); }), {"far out"}));
  EXPECT_NE(message([] { throw 1; }), "");
  EXPECT_TRUE(mentions(message([] { throw std::bad_alloc(); }), {"memory", "batch"}));
  const auto no_thread = std::make_error_code(std::errc::resource_unavailable_try_again);
  EXPECT_TRUE(mentions(message([&] { throw std::system_error(no_thread); }), {"ulimit -u"}));
}

TEST(ExpectSame, NamesTheRankTheLineAndBothValues) {
  const Comm comm = world().comm();
  EXPECT_EQ(agreed_error_of([&] { expect_same(comm, "command lines", "batch = 64\nseed = 1\n"); }),
            "");
  const int last = comm.size() - 1;
  if (last == 0) return;
  const std::string text = fmt::format("batch = 64\nseed = {}\n", comm.rank() == last ? 2 : 1);
  expect_agreed_error({fmt::format("rank {} ({}): ", last, host_name()), "command lines",
                       "seed = 2", "seed = 1", "rank 0"},
                      [&] { expect_same(comm, "command lines", text); });
}

TEST(ExpectSame, FindsATextThatEndsEarly) {
  const Comm comm = world().comm();
  if (comm.size() == 1) return;
  const std::string text = comm.rank() == 0 ? "a = 1\nb = 2\n" : "a = 1\n";
  expect_agreed_error({"b = 2", "rank 0"}, [&] { expect_same(comm, "plans", text); });
}

TEST(FlightRecorder, HasOneFirstFailure) {
  const Comm comm = world().comm();
  const NodeMemory memory(comm, comm, FlightRecorder::bytes(comm.size()), "this test");
  FlightRecorder records(memory.data(), comm.rank(), comm.size(), comm.rank());
  comm.barrier();
  EXPECT_FALSE(records.failing());
  comm.barrier();
  EXPECT_EQ(comm.sum(records.first_failure() ? 1 : 0), 1);
  EXPECT_TRUE(records.failing());
  EXPECT_FALSE(records.first_failure());
}

TEST(FlightRecorder, AllRanksReadEveryRecord) {
  const Comm comm = world().comm();
  FlightRecorder& records = world().flight_recorder();
  ASSERT_EQ(records.size(), comm.size());
  records.mine().step(100 + comm.rank());
  records.mine().phase(
      "bucket 2 of the reducer tree, with a name that is too long to be kept whole", 5);
  comm.barrier();
  for (int i = 0; i < records.size(); ++i) {
    const RankRecorder::State state = records[i].read();
    EXPECT_EQ(state.rank, i);
    EXPECT_EQ(state.step, 100 + i);
    EXPECT_EQ(state.phase, "bucket 2 of the reducer tree, with a name that is too long to be");
    EXPECT_EQ(state.limit_seconds, 5);
    EXPECT_GE(state.seconds_since, 0);
    EXPECT_FALSE(state.has_left);
  }
}

/// Clocks with known differences, as if each rank or each pair of ranks were a host.
TEST(ClockOffset, IsCorrectWithinItsError) {
  const Comm comm = world().comm().duplicate();
  for (const int ranks_of_a_host : {1, 2}) {
    const int host = comm.rank() / ranks_of_a_host;
    const Comm node = group_of(comm, host);
    const std::int64_t behind = std::int64_t{host} * 7'000'000'000;
    const ClockOffset offset = clock_offset(comm, node, [&] {
      EXPECT_TRUE(world().flight_recorder().mine().read().waiting) << "for the watchdog";
      return now_ns() - behind;
    });
    EXPECT_FALSE(world().flight_recorder().mine().read().waiting);
    if (host == 0) {
      EXPECT_EQ(offset.ns, 0);
      EXPECT_EQ(offset.error_ns, 0);
      continue;
    }
    EXPECT_LE(std::abs(offset.ns - behind), offset.error_ns);
    EXPECT_GT(offset.error_ns, 0);
    EXPECT_LT(offset.error_ns, 1'000'000'000);
    EXPECT_EQ(node.min(offset.ns), node.max(offset.ns)) << "one clock for a host";
  }
}

}  // namespace
}  // namespace lockstep
