// Errors about the way in which a program was started, by the variables that launchers set.
#include "collectives/watch/host_address.h"
#include "collectives/watch/launch.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/error_of.h"

namespace lockstep {
namespace {

using Variables = std::map<std::string, std::string>;

/// The environment of these variables.
auto environment(const Variables& variables) {
  return [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}
std::string problem(int size, const Variables& variables, Start start = Start::ranks) {
  return launch_problem(environment(variables), size, start);
}
bool is_first(const Variables& variables) { return is_first_task(environment(variables)); }

TEST(Launch, APlainStartIsARunOfOneRank) {
  EXPECT_EQ(problem(0, {}), "");
  EXPECT_EQ(problem(1, {}), "");
}

TEST(Launch, SrunWithoutAMatchingPmiIsRefusedBeforeMpiStarts) {
  const Variables step = {{"SLURM_NTASKS", "4"},
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
  const Variables other{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}};
  EXPECT_EQ(problem(0, other), "") << "it may be this MPI's launcher";
  EXPECT_NE(problem(1, other), "");
  EXPECT_EQ(problem(2, other), "");
}

TEST(Launch, IgnoresAVariableThatIsNotAWholeNumber) {
  for (const char* size : {"2x", "x2", "2 ", "", "99999999999"})
    EXPECT_EQ(problem(1, {{"RANK", "0"}, {"WORLD_SIZE", size}}), "") << size;
}

TEST(Launch, Task0PrintsErrors) {
  EXPECT_TRUE(is_first({}));
  EXPECT_TRUE(is_first({{"SLURM_PROCID", "0"}}));
  EXPECT_FALSE(is_first({{"SLURM_PROCID", "1"}}));
  EXPECT_FALSE(is_first({{"PMI_RANK", "3"}}));
  const auto torchrun = [](const char* rank) {
    return is_first(
        {{"RANK", rank}, {"LOCAL_RANK", rank}, {"WORLD_SIZE", "2"}, {"SLURM_PROCID", "0"}});
  };
  EXPECT_TRUE(torchrun("0"));
  EXPECT_FALSE(torchrun("1"));
  EXPECT_TRUE(is_first({{"RANK", "1"}, {"WORLD_SIZE", "2"}})) << "alone in its container";
}

TEST(Launch, OneProcessInAnAllocationIsUsefulForSomePrograms) {
  Variables container{{"WORLD_SIZE", "4"}, {"RANK", "1"}};  // in a container of its own
  for (const Variables& variables :
       {Variables{{"SLURM_JOB_ID", "77"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}},
        container}) {
    EXPECT_NE(problem(0, variables, Start::ranks), "");
    EXPECT_EQ(problem(0, variables, Start::any) + problem(0, variables, Start::single), "");
  }
  // Several were started. A program of one process never advises a launcher.
  container["LOCAL_RANK"] = "1";
  EXPECT_TRUE(mentions(problem(0, container, Start::any), {"mpirun -np 4"}));
  EXPECT_EQ(problem(0, container, Start::single), kOneProcess);
  const Variables step{{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}};
  EXPECT_TRUE(mentions(problem(0, step, Start::any), {"--mpi=pmix"}));
  EXPECT_EQ(problem(0, step, Start::single), kOneProcess);
}

TEST(Launch, RanksOnOneHostSearchNoNetworks) {
  const auto layers = [](const Variables& variables) {
    return network_layers(environment(variables), {{"eth0", {}}, {"docker0", {}}});
  };
  const Variables both{{"OMPI_MCA_btl", "^tcp,ofi"}, {"OMPI_MCA_pml", "ob1"}}, none,
      others{{"OMPI_MCA_btl_tcp_if_exclude", "127.0.0.1/8,sppp,docker0"}};
  Variables mpirun{{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
  EXPECT_EQ(layers({}), both) << "without a launcher";
  EXPECT_EQ(layers(mpirun), both);
  EXPECT_TRUE(on_one_host(environment(mpirun)));
  EXPECT_EQ(layers({{"PMIX_RANK", "0"}, {"SLURM_STEP_NUM_NODES", "1"}}), both);
  EXPECT_EQ(layers({{"PMIX_RANK", "0"}, {"SLURM_STEP_NUM_NODES", "2"}}), others);
  EXPECT_EQ(layers({{"PMIX_RANK", "0"}}), others) << "an unknown launcher";
  mpirun["OMPI_MCA_pml"] = "ucx";
  EXPECT_EQ(layers(mpirun), (Variables{{"OMPI_MCA_btl", "^tcp,ofi"}}));
  mpirun["OMPI_MCA_mtl"] = "psm2";
  EXPECT_EQ(layers(mpirun), none) << "the user's choice counts";
  Variables hosts{{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  EXPECT_EQ(layers(hosts), others);
  EXPECT_EQ(network_layers(environment(hosts), {{"br-lan", {}}, {"br-0", {}}}), none);
  for (const char* name :
       {"virbr0", "lxcbr0", "lxdbr0", "podman1", "cni-podman0", "br-01234567abcd"})
    EXPECT_EQ(network_layers(environment(hosts), {{name, {}}, {"ib0", {}}}).size(), 1u) << name;
  EXPECT_EQ(network_layers(environment(hosts), {{"virbr0", {}}}), none) << "no other is left";
  hosts["OMPI_MCA_btl_tcp_if_include"] = "docker0";
  EXPECT_EQ(layers(hosts), none) << "the user's choice counts";
}

}  // namespace
}  // namespace lockstep
