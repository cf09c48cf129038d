// Hosts and command lines of lockstep_run.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

#include "apps/supervise/command.h"
#include "src/base/error.h"
#include "tests/support/environment.h"

namespace lockstep {
namespace {

using Words = std::vector<std::string>;

std::vector<Host> read(const std::string& text) {
  const auto file = std::filesystem::temp_directory_path() / fmt::format("hosts-{}", ::getpid());
  std::ofstream(file) << text;
  try {
    std::vector<Host> hosts = read_hostfile(file);
    std::filesystem::remove(file);
    return hosts;
  } catch (...) {
    std::filesystem::remove(file);
    throw;
  }
}

TEST(SupervisedCommand, Hosts) {
  const auto hosts = read("# all\n\nnode1 slots=2  # fast\n node2\nnode1 slots=3\n");
  ASSERT_EQ(hosts.size(), 2u);
  EXPECT_EQ(hosts[0].name, "node1");
  EXPECT_EQ(hosts[0].slots, 5);
  EXPECT_EQ(hosts[1].slots, 1);
  EXPECT_EQ(parse_hosts("a:4,b")[0].slots, 4);
  EXPECT_EQ(parse_hosts("a:4,b")[1].slots, 1);
  EXPECT_EQ(read("\xef\xbb\xbfnode1\r\n2001:db8::1 slots=2\r\n")[1].name, "2001:db8::1");
  EXPECT_EQ(read("node1\rnode2 slots=2\r")[1].slots, 2) << "of an old Mac";
  for (const char* text : {"", "# none\n", "node1 slots=0\n", "node1 slots=2x\n", "node1 max=2\n",
                           "-node1\n", "node1:4\n"})
    EXPECT_THROW(read(text), Error) << text;
  for (const char* list : {"a:x", ":2", "a,,b", "a:"})
    EXPECT_THROW(parse_hosts(list), Error) << list;
  EXPECT_THROW(read_hostfile("/nowhere"), Error);
  EXPECT_THROW(read_hostfile("/"), Error);
  try {
    read("node1\nnode2 slots=-1\n");
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), kExitUsage);
    EXPECT_NE(std::string(error.what()).find(":2: slots: -1 is"), std::string::npos)
        << error.what();
  }
}

TEST(SupervisedCommand, NamesAndAddresses) {
  const auto name = [](const std::string& entry) {
    const Host host = parse_hosts(entry).front();
    return fmt::format("{} {}", host.name, host.slots);
  };
  EXPECT_EQ(name("::1"), "::1 1");
  EXPECT_EQ(name("[2001:db8::1]:4"), "2001:db8::1 4");
  EXPECT_EQ(name("[2001:db8::1]"), "2001:db8::1 1");
  EXPECT_EQ(name("me@Node_1.example.org.:2"), "me@Node_1.example.org 2");
  EXPECT_EQ(name("3-x,192.0.2.1"), "3-x 1");
  for (const char* entry : {"-x", "me@-x", "--", "7", "fe80::1%eth0", "::1::", "[::1", "[::1]x",
                            "::ffff:192.0.2.1", "h\xc3\xa4us", "a b", "."})
    EXPECT_THROW(parse_hosts(entry), Error) << entry;
}

TEST(SupervisedCommand, Shares) {
  HostStates states({{"a", 2}, {"b", 4}});
  EXPECT_EQ(rank_count(states.share(5)), 5);
  EXPECT_EQ(states.share(5)[1].count, 3);
  EXPECT_EQ(states.share(1).size(), 1u);
  EXPECT_EQ(rank_count(states.share(100)), 6);
  states.lost("a", 0);
  EXPECT_EQ(states.share(5)[0].first, 0);
  EXPECT_EQ(rank_count(states.share(5)), 4);
  EXPECT_EQ(ranks_text({"a", 2, 1}), "rank 2");
  EXPECT_EQ(ranks_text({"a", 2, 2}), "ranks 2, 3");
  EXPECT_EQ(ranks_text({"a", 2, 3}), "ranks 2 to 4");
}

TEST(SupervisedCommand, MostRanks) {
  EXPECT_EQ(most_ranks({"p", "--shards", "12"}), 12);
  EXPECT_EQ(most_ranks({"p", "--shards=12", "--shards", "6"}), 6) << "the last value counts";
  for (const Words& words :
       {Words{"p"}, {"p", "--shards"}, {"p", "--shards", "x"}, {"--shards", "0"}})
    EXPECT_EQ(most_ranks(words), std::numeric_limits<int>::max());
}

TEST(SupervisedCommand, WordsOfMpirun) {
  const Command command{.words = {"p", "--lr", "1"}, .mpirun = {"--tag-output"}};
  EXPECT_EQ(mpirun_words(command, 2, "", {"A"}),
            (Words{"mpirun", "-np", "2", "--tag-output", "p", "--lr", "1"}));
  EXPECT_EQ(hostfile_text({{"", 0, 2}}), "");
  EXPECT_EQ(hostfile_text({{"a", 0, 2}, {"b", 2, 1}}), "a slots=2\nb slots=1\n");
  EXPECT_EQ(mpirun_words(command, 3, "file", {"A"}),
            (Words{"mpirun", "-np", "3", "--hostfile", "file", "--map-by", "slot", "-x", "A",
                   "--tag-output", "p", "--lr", "1"}));
}

TEST(SupervisedCommand, Environment) {
  const Variable job("SLURM_JOB_NUM_NODES", nullptr), quiet("OMPI_MCA_orte_execute_quiet", "0"),
      prte("PRTE_MCA_prte_execute_quiet", nullptr),
      binding("OMPI_MCA_hwloc_base_binding_policy", nullptr),
      many("OMPI_MCA_rmaps_base_oversubscribe", nullptr);
  auto one = mpirun_environment({{"", 0, 4}}, 4, true);
  EXPECT_EQ(one.at("PRTE_MCA_prte_execute_quiet"), "1");
  EXPECT_EQ(one.count("OMPI_MCA_orte_execute_quiet"), 0u) << "the user's value counts";
  EXPECT_EQ(one.count("OMPI_MCA_hwloc_base_binding_policy"), 0u);
  EXPECT_EQ(one.count("OMPI_MCA_rmaps_base_oversubscribe"), 0u);
  auto more = mpirun_environment({{"", 0, 5}}, 4, true);
  EXPECT_EQ(more.at("OMPI_MCA_rmaps_base_oversubscribe"), "1");
  EXPECT_EQ(more.at("OMPI_MCA_hwloc_base_binding_policy"), "none");
  auto part = mpirun_environment({{"", 0, 4}}, 4, false);
  EXPECT_EQ(part.at("OMPI_MCA_hwloc_base_binding_policy"), "none");
  EXPECT_EQ(part.at("OMPI_MCA_regx"), "naive") << "the own name of a host may have an underscore";
  auto two = mpirun_environment({{"192.0.2.1", 0, 2}, {"b", 2, 2}}, 4, true);
  EXPECT_EQ(two.count("OMPI_MCA_orte_keep_fqdn_hostnames"), 0u);
  EXPECT_EQ(
      mpirun_environment({{"b.org", 0, 4}}, 4, true).count("OMPI_MCA_orte_keep_fqdn_hostnames"),
      1u);
  EXPECT_EQ(two.at("OMPI_MCA_hwloc_base_binding_policy"), "none");
}

TEST(SupervisedCommand, ThisHostNeedsNoNetwork) {
  const Variable job("SLURM_JOB_NUM_NODES", nullptr), mpirun("OMPI_MCA_oob_tcp_if_include", "eth0"),
      ranks("OMPI_MCA_btl_tcp_if_exclude", "lo,docker0"),
      unset("OMPI_MCA_btl_tcp_if_include", nullptr);
  auto here = mpirun_environment({{kThisHost, 0, 4}}, 4, true);
  EXPECT_EQ(here.at("OMPI_MCA_oob_tcp_if_include"), "lo");
  EXPECT_EQ(here.at("OMPI_MCA_btl_tcp_if_exclude"), "");
  EXPECT_EQ(here.count("OMPI_MCA_btl_tcp_if_include"), 0u) << "Open MPI refuses both";
  auto there = mpirun_environment({{"node2", 0, 4}}, 4, true);
  EXPECT_EQ(there.count("OMPI_MCA_oob_tcp_if_include"), 0u) << "mpirun reaches it by this network";
}

TEST(SupervisedCommand, AgentOfOtherHosts) {
  const Variable job("SLURM_JOB_ID", nullptr), none("OMPI_MCA_plm_rsh_agent", nullptr);
  const Words ssh = remote_words("a", "true");
  EXPECT_EQ(ssh.front(), "ssh");
  EXPECT_EQ(Words(ssh.end() - 3, ssh.end()), (Words{"--", "a", "true"}));
  {
    const Variable agent("OMPI_MCA_plm_rsh_agent", "ssh -p 22 : rsh");
    EXPECT_EQ(remote_words("a", "cat x"), (Words{"ssh", "-p", "22", "--", "a", "cat x"}));
  }
  {
    const Variable agent("OMPI_MCA_plm_rsh_agent", "rsh");
    EXPECT_EQ(remote_words("a", "cat x"), (Words{"rsh", "a", "cat x"}));
  }
  const Variable slurm("SLURM_JOB_ID", "7");
  EXPECT_EQ(remote_words("a", "true").front(), "srun");
}

TEST(SupervisedCommand, ReasonsOfTheLauncher) {
  const std::string line = "--------------------------\n";
  EXPECT_EQ(silence_text("a", "banner\r\nssh: refused\r\n\n"),
            "host a does not answer: ssh: refused");
  EXPECT_EQ(silence_text("a", ""), "host a does not answer.");

  const int file = ::memfd_create("messages", 0);
  std::map<std::string, std::string> environment = {{"OMPI_MCA_orte_execute_quiet", "1"}};
  Words words = {"mpirun", "p"};
  collect_messages(file, environment, words);
  EXPECT_EQ(words, (Words{"mpirun", "-x", "OPAL_OUTPUT_STDERR_FD=2", "p"})) << "not for the ranks";
  EXPECT_EQ(environment.at("OPAL_OUTPUT_STDERR_FD"), std::to_string(file));
  EXPECT_EQ(environment.size(), 1u) << "mpirun is not quiet";
  environment.clear();  // the user's choice
  collect_messages(file, environment, words);
  EXPECT_TRUE(environment.empty());

  const auto reason = [&](const std::string& text) {
    EXPECT_EQ(::write(file, text.data(), text.size()), std::ssize(text));
    return take_reason(file);
  };
  EXPECT_EQ(reason("[a:1] x\n" + line + "too\n\nfew\n" + line + line + "b\n" + line),
            "mpirun: too\nmpirun: few\n");
  EXPECT_EQ(reason(line + "Exit code: 1\n" + line + line + "b\n" + line), "mpirun: b\n");
  EXPECT_EQ(reason("text\n"), "");
  ::close(file);
}

}  // namespace
}  // namespace lockstep
