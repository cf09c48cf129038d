// World, Comm, agreement: every rank sees the same outcome.
#include "collectives/comm/comm.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <new>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <system_error>

#include "collectives/comm/communicator.h"
#include "collectives/comm/flight_recorder.h"
#include "collectives/node/node_memory.h"
#include "collectives/watch/launch.h"
#include "tests/mpi/world.h"

namespace {
std::int64_t most_gathered = 0;  ///< elements that one MPI_Gatherv has received here
}

/// MPI's own, which the library calls through this one in this program.
int MPI_Gatherv(const void* from, int count, MPI_Datatype type, void* to, const int* counts,
                const int* offsets, MPI_Datatype to_type, int root, MPI_Comm comm) {
  int rank = 0, size = 0;
  PMPI_Comm_rank(comm, &rank);
  PMPI_Comm_size(comm, &size);
  if (rank == root)
    most_gathered =
        std::max(most_gathered, std::accumulate(counts, counts + size, std::int64_t{0}));
  return PMPI_Gatherv(from, count, type, to, counts, offsets, to_type, root, comm);
}

namespace lockstep {
namespace {

/// The message of the AgreedError that `body` throws on all ranks alike; empty if it throws none.
template <class Body>
std::string agreed_message(Body body) {
  try {
    body();
  } catch (const AgreedError& error) {
    return error.what();
  }
  return "";
}

TEST(Comm, sums_and_extremes_over_all_ranks) {
  const Comm comm = world().comm();
  const std::int64_t size = comm.size();
  EXPECT_EQ(comm.sum(comm.rank() + 1), size * (size + 1) / 2);
  EXPECT_EQ(comm.min(std::int64_t{1} << (40 + comm.rank())), std::int64_t{1} << 40);
  EXPECT_EQ(comm.max(comm.rank()), size - 1);
}

TEST(Comm, broadcasts_and_gathers_texts_of_any_length) {
  const Comm comm = world().comm();
  const int last = comm.size() - 1;
  EXPECT_EQ(comm.broadcast(comm.rank() == last ? "from the last" : "not this", last),
            "from the last");
  EXPECT_EQ(comm.broadcast(comm.rank() == 0 ? "" : "not this"), "");

  const auto texts = comm.gather(std::string(static_cast<std::size_t>(comm.rank()) * 3, 'x'));
  ASSERT_EQ(texts.size(), comm.rank() == 0 ? static_cast<std::size_t>(comm.size()) : 0u);
  for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(texts[i], std::string(i * 3, 'x'));
}

TEST(Comm, gathers_texts_that_are_longer_together_than_mpi_can_count) {
  const Comm comm = world().comm().with_largest_message(12);
  const auto text_of = [](int rank) {
    std::string text;
    for (int i = 0; i < 7 * rank + 40 * (rank == 1); ++i)
      text += static_cast<char>('a' + (rank + i) % 26);
    return text;
  };
  most_gathered = 0;
  const std::vector<std::string> texts = comm.gather(text_of(comm.rank()));
  for (int rank = 0; rank < std::ssize(texts); ++rank) EXPECT_EQ(texts[rank], text_of(rank));
  EXPECT_LE(most_gathered, 12) << "bytes of one call";
  EXPECT_EQ(most_gathered > 0, comm.rank() == 0 && comm.size() > 1);
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

TEST(Comm, any_number_of_elements_is_summed_broadcast_and_gathered_in_messages_that_mpi_can_count) {
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

      std::vector<std::int64_t> sums = values_of<std::int64_t>(comm.rank(), count);
      std::vector<std::int64_t> expected(count);
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

TEST(Comm, what_it_made_is_freed_with_the_last_copy_but_not_while_an_exception_unwinds) {
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

TEST(Comm, all_ranks_of_this_test_share_one_node) {
  const Comm node = world().comm().node();
  EXPECT_EQ(node.size(), world().comm().size());
  EXPECT_EQ(node.rank(), world().comm().rank());
}

TEST(Comm, errors_return_as_exceptions) {
  int value = 0;
  EXPECT_THROW(check(MPI_Send(&value, 1, MPI_INT, world().comm().size(), 0, raw(world().comm()))),
               Error);
}

TEST(NodeMemory, is_shared_aligned_and_zeroed) {
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

TEST(NodeMemory, removes_what_killed_runs_left) {
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
  const fs::path old = file(gone, "old"), fresh = file(gone, "new"), owned = file(::getpid(), "");
  if (node.rank() == 0) {
    for (const fs::path& path : {old, fresh, owned}) std::ofstream(path) << "left";
    for (const fs::path& path : {old, owned})
      fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::minutes(2));
  }
  const NodeMemory memory(node, node, 1, "this test");
  if (node.rank() == 0) {
    EXPECT_FALSE(fs::exists(old)) << "of a process that is gone";
    EXPECT_TRUE(fs::remove(fresh)) << "perhaps of another container";
    EXPECT_TRUE(fs::remove(owned)) << "of a process that lives";
  }
}

TEST(NodeMemory, refuses_more_than_there_is_on_all_ranks) {
  const Comm node = world().comm().node();
  if (node.size() > 1) {
    const std::string message =
        agreed_message([&] { NodeMemory(node, node, std::size_t{1} << 50, "the reducer shared"); });
    EXPECT_NE(message.find("the reducer shared needs"), std::string::npos) << message;
    EXPECT_NE(message.find("/dev/shm has"), std::string::npos) << message;
  }
}

TEST(Agree, is_silent_when_nobody_fails) {
  int calls = 0;
  agree(world().comm(), [&] { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST(Agree, all_ranks_throw_the_error_of_the_lowest_that_failed) {
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

TEST(Agree, takes_any_exception_with_its_cure) {
  const auto message = [](const std::function<void()>& body) {
    return agreed_message([&] { agree(world().comm(), body); });
  };
  EXPECT_EQ(message([] { throw std::out_of_range("far out"); }), "unexpected error: far out");
  EXPECT_EQ(message([] { throw 1; }), "unexpected error of an unknown kind");
  EXPECT_EQ(message([] { throw std::bad_alloc(); }),
            "out of memory: use a smaller batch or fewer ranks per host");
  const auto no_thread = std::make_error_code(std::errc::resource_unavailable_try_again);
  EXPECT_NE(message([&] { throw std::system_error(no_thread); }).find("ulimit -u"),
            std::string::npos);
}

TEST(ExpectSame, names_the_rank_the_line_and_both_values) {
  const Comm comm = world().comm();
  EXPECT_EQ(agreed_message([&] { expect_same(comm, "command lines", "batch = 64\nseed = 1\n"); }),
            "");
  const int last = comm.size() - 1;
  if (last == 0) return;
  const std::string text =
      comm.rank() == last ? "batch = 64\nseed = 2\n" : "batch = 64\nseed = 1\n";
  const std::string message = agreed_message([&] { expect_same(comm, "command lines", text); });
  EXPECT_EQ(message, fmt::format("rank {} ({}): command lines differ: \"seed = 2\" here, \"seed = "
                                 "1\" on rank 0; start all "
                                 "ranks with the same build, options and files",
                                 last, host_name()));
}

TEST(ExpectSame, notices_a_text_that_ends_early) {
  const Comm comm = world().comm();
  if (comm.size() == 1) return;
  const std::string text = comm.rank() == 0 ? "a = 1\nb = 2\n" : "a = 1\n";
  const std::string message = agreed_message([&] { expect_same(comm, "plans", text); });
  EXPECT_NE(message.find("\"(nothing)\" here, \"b = 2\" on rank 0"), std::string::npos) << message;
}

TEST(FlightRecorder, the_first_to_fail_is_one) {
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

TEST(FlightRecorder, everybody_reads_what_one_wrote) {
  const Comm comm = world().comm();
  FlightRecorder& records = world().flight_recorder();
  ASSERT_EQ(records.size(), comm.size());
  records.mine().step(100 + comm.rank());
  records.mine().phase(
      "bucket 2 of the reducer tree, with a name that is too long to be kept whole", 5);
  comm.barrier();
  for (int i = 0; i < records.size(); ++i) {
    const Record::State state = records[i].read();
    EXPECT_EQ(state.rank, i);
    EXPECT_EQ(state.step, 100 + i);
    EXPECT_EQ(state.phase, "bucket 2 of the reducer tree, with a name that is too long to be");
    EXPECT_EQ(state.limit_seconds, 5);
    EXPECT_GE(state.seconds_since, 0);
    EXPECT_FALSE(state.said_goodbye);
  }
}

/// launch_problem() for an environment of the given variables.
std::string problem(int size, std::map<std::string, std::string> variables) {
  return launch_problem(
      [&](const char* name) {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      size);
}

TEST(Launch, a_plain_start_is_a_run_of_one_rank) {
  EXPECT_EQ(problem(0, {}), "");
  EXPECT_EQ(problem(1, {}), "");
}

TEST(Launch, srun_without_a_matching_pmi_is_refused_before_mpi_starts) {
  const std::map<std::string, std::string> step = {{"SLURM_NTASKS", "4"},
                                                   {"SLURM_STEP_ID", "0"},
                                                   {"SLURM_STEP_NUM_TASKS", "4"},
                                                   {"SLURM_PROCID", "2"}};
  EXPECT_NE(problem(0, step).find("--mpi=pmix"), std::string::npos);
  EXPECT_NE(problem(1, step).find("--mpi=pmix"), std::string::npos);
  auto matched = step;
  matched["PMIX_RANK"] = "2";
  EXPECT_EQ(problem(0, matched), "");
  EXPECT_EQ(problem(4, matched), "");
  EXPECT_NE(problem(1, matched), "");
}

TEST(Launch, mpirun_forgotten_in_an_allocation_is_refused) {
  const std::string message = problem(0, {{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}});
  EXPECT_NE(message.find("mpirun"), std::string::npos) << message;
  EXPECT_EQ(problem(0, {{"SLURM_NTASKS", "1"}}), "");
  // A shell inside a step of one task: whoever starts one rank there means it.
  EXPECT_EQ(
      problem(0, {{"SLURM_NTASKS", "4"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}),
      "");
}

TEST(Launch, mpirun_of_one_rank_is_what_the_user_asked_for) {
  EXPECT_EQ(problem(1, {{"OMPI_COMM_WORLD_SIZE", "1"}, {"SLURM_NTASKS", "4"}}), "");
}

TEST(Launch, a_foreign_mpirun_is_refused) {
  EXPECT_EQ(problem(0, {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}), "");  // it may be this MPI's own
  EXPECT_NE(problem(1, {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}), "");
  EXPECT_EQ(problem(2, {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}), "");
}

TEST(Launch, a_variable_that_is_no_whole_number_counts_as_none) {
  for (const char* size : {"2x", "x2", "2 ", "", "99999999999"})
    EXPECT_EQ(problem(1, {{"RANK", "0"}, {"WORLD_SIZE", size}}), "") << size;
}

TEST(Launch, torchrun_is_refused_where_mpirun_did_not_start_the_program) {
  using Variables = std::map<std::string, std::string>;
  const Variables torchrun = {{"RANK", "1"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "2"}};
  for (const int size : {0, 1}) {
    const std::string message = problem(size, torchrun);
    EXPECT_NE(message.find("WORLD_SIZE=2"), std::string::npos) << message;
    EXPECT_NE(message.find("mpirun"), std::string::npos) << message;
    EXPECT_NE(problem(size, {{"RANK", "0"}, {"WORLD_SIZE", "2"}}), "") << "of a container";
    // Started properly, in a container or a batch system that sets the variables.
    for (const char* launcher : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK"}) {
      Variables started = torchrun;
      started[launcher] = "1";
      EXPECT_EQ(problem(size, started), "") << launcher;
    }
    for (const Variables& harmless :
         {Variables{{"RANK", "0"}, {"WORLD_SIZE", "1"}}, Variables{{"WORLD_SIZE", "2"}},
          Variables{{"RANK", "1"}}, Variables{{"RANK", "3"}, {"WORLD_SIZE", "2"}},
          Variables{{"RANK", "0"}, {"WORLD_SIZE", "large"}}}) {
      EXPECT_EQ(problem(size, harmless), "");
    }
  }
  EXPECT_EQ(problem(2, torchrun), "");
}

TEST(Launch, task_0_speaks) {
  const auto first = [](std::map<std::string, std::string> variables) {
    return is_first_task([&](const char* name) {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
  };
  EXPECT_TRUE(first({}));
  EXPECT_TRUE(first({{"SLURM_PROCID", "0"}}));
  EXPECT_FALSE(first({{"SLURM_PROCID", "1"}}));
  EXPECT_FALSE(first({{"PMI_RANK", "3"}}));
  const auto torchrun = [&](const char* rank) {
    return first(
        {{"RANK", rank}, {"LOCAL_RANK", rank}, {"WORLD_SIZE", "2"}, {"SLURM_PROCID", "0"}});
  };
  EXPECT_TRUE(torchrun("0"));
  EXPECT_FALSE(torchrun("1"));
  EXPECT_TRUE(first({{"RANK", "1"}, {"WORLD_SIZE", "2"}})) << "alone in its container";
}

}  // namespace
}  // namespace lockstep
