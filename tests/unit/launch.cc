// Errors about the way in which a program was started, by the variables that launchers set.
#include "collectives/watch/launch.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/error_of.h"

namespace lockstep {
namespace {

/// launch_problem() for an environment of the given variables.
std::string problem(int size, std::map<std::string, std::string> variables) {
  return launch_problem(
      [&](const char* name) {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      size);
}

TEST(Launch, APlainStartIsARunOfOneRank) {
  EXPECT_EQ(problem(0, {}), "");
  EXPECT_EQ(problem(1, {}), "");
}

TEST(Launch, SrunWithoutAMatchingPmiIsRefusedBeforeMpiStarts) {
  const std::map<std::string, std::string> step = {{"SLURM_NTASKS", "4"},
                                                   {"SLURM_STEP_ID", "0"},
                                                   {"SLURM_STEP_NUM_TASKS", "4"},
                                                   {"SLURM_PROCID", "2"}};
  EXPECT_TRUE(mentions(problem(0, step), {"--mpi=pmix"}));
  EXPECT_TRUE(mentions(problem(1, step), {"--mpi=pmix"}));
  auto matched = step;
  matched["PMIX_RANK"] = "2";
  EXPECT_EQ(problem(0, matched), "");
  EXPECT_EQ(problem(4, matched), "");
  EXPECT_NE(problem(1, matched), "");
}

TEST(Launch, AnAllocationWithoutMpirunIsRefused) {
  const std::string message = problem(0, {{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}});
  EXPECT_TRUE(mentions(message, {"mpirun"}));
  EXPECT_EQ(problem(0, {{"SLURM_NTASKS", "1"}}), "");
  // A shell inside a step of one task: one rank is what the user asked for.
  EXPECT_EQ(
      problem(0, {{"SLURM_NTASKS", "4"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}),
      "");
}

TEST(Launch, MpirunOfOneRankIsWhatTheUserAskedFor) {
  EXPECT_EQ(problem(1, {{"OMPI_COMM_WORLD_SIZE", "1"}, {"SLURM_NTASKS", "4"}}), "");
}

TEST(Launch, MpirunOfAnotherMpiIsRefused) {
  EXPECT_EQ(problem(0, {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}),
            "");  // it may be this MPI's launcher
  EXPECT_NE(problem(1, {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}), "");
  EXPECT_EQ(problem(2, {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}), "");
}

TEST(Launch, IgnoresAVariableThatIsNotAWholeNumber) {
  for (const char* size : {"2x", "x2", "2 ", "", "99999999999"})
    EXPECT_EQ(problem(1, {{"RANK", "0"}, {"WORLD_SIZE", size}}), "") << size;
}

TEST(Launch, Task0PrintsErrors) {
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

TEST(Launch, OneProcessInAnAllocationIsUsefulForSomePrograms) {
  std::map<std::string, std::string> variables;
  const auto of = [&](Start start) {
    return launch_problem(
        [&](const char* name) {
          const auto found = variables.find(name);
          return found == variables.end() ? nullptr : found->second.c_str();
        },
        0, start);
  };
  variables = {{"SLURM_JOB_ID", "77"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}};
  EXPECT_NE(of(Start::ranks), "");
  EXPECT_EQ(of(Start::any) + of(Start::single), "");
  variables = {{"WORLD_SIZE", "4"}, {"RANK", "1"}};  // in a container of its own
  EXPECT_NE(of(Start::ranks), "");
  EXPECT_EQ(of(Start::any) + of(Start::single), "");
  // Several were started. A program of one process never advises a launcher.
  variables["LOCAL_RANK"] = "1";
  EXPECT_TRUE(mentions(of(Start::any), {"mpirun -np 4"}));
  EXPECT_EQ(of(Start::single), kOneProcess);
  variables = {{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}};
  EXPECT_TRUE(mentions(of(Start::any), {"--mpi=pmix"}));
  EXPECT_EQ(of(Start::single), kOneProcess);
}

}  // namespace
}  // namespace lockstep
