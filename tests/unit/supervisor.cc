// The policy of lockstep_run against hosts and starts that are played, on a clock of its own.
#include "apps/supervise/supervisor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <set>

#include "src/base/error.h"

namespace lockstep {
namespace {

/// How one start of mpirun goes: it ends after `seconds` with `end`, and finishes `per_second`
/// steps a second after half a second.
struct Play {
  double seconds = 1;
  End end;
  double per_second = 100;
};

class FakeMachines : public Machines {
 public:
  std::vector<Play> plays;        ///< one for each start; the last one is repeated
  std::set<std::string> down;     ///< hosts that do not answer
  std::set<std::string> stopped;  ///< hosts with a stopped rank, until the ranks end
  std::multimap<double, std::function<void()>> later;  ///< by time
  bool has_steps = true, ranks = true;
  bool is_busy = false;  ///< hosts that are down answer when the ranks have ended
  int incomplete = 0;  ///< starts that end with code 0, and leave their step

  std::vector<std::vector<HostRange>> starts;
  std::vector<Change> changes;
  std::vector<double> times;  ///< of starts
  std::vector<std::string> lines;
  std::vector<int> sent;
  int forgotten = 0, questions = 0;

  double now() override { return time_; }
  void start(const std::vector<HostRange>& shares, const Change& change, int number) override {
    starts.push_back(shares);
    changes.push_back(change);
    times.push_back(time_);
    EXPECT_EQ(number, std::ssize(starts));
    const Play& play = plays[std::min(starts.size(), plays.size()) - 1];
    begin_ = time_;
    before_ = std::max<std::int64_t>(done_, 0);
    speed_ = play.per_second;
    end_at(time_ + play.seconds, play.end);
  }
  void send(int signal) override {
    sent.push_back(signal);
    if (signal == SIGUSR1) end_at(time_ + 0.1, {kExitRequeue});
    if (signal == SIGTERM) end_at(time_, {128 + SIGTERM});
    if (signal == SIGKILL) end_at(time_, {128 + SIGKILL, true});
    if (signal == SIGKILL && is_busy) down.clear();
  }
  void ask(const std::vector<std::string>& hosts) override {
    EXPECT_TRUE(asked_.empty()) << "one question at a time";
    ++questions;
    asked_ = hosts;
    const bool all =
        std::ranges::none_of(hosts, [&](const auto& host) { return down.count(host); });
    answer_at_ = time_ + (all ? 0.1 : 1);
  }
  Event wait(double seconds) override {
    const double until = time_ + seconds;
    for (;;) {
      double next = until;
      if (!later.empty()) next = std::min(next, later.begin()->first);
      if (running_) next = std::min(next, ends_);
      if (!asked_.empty()) next = std::min(next, answer_at_);
      time_ = std::max(time_, next);
      if (running_) done_ = std::max(done_, step_now());
      while (!later.empty() && later.begin()->first <= time_) {
        const auto happens = later.extract(later.begin());
        happens.mapped()();
      }
      Event event;
      event.signal = std::exchange(signal_, 0);
      if (running_ && ends_ <= time_) {
        running_ = false;
        event.ended = end_;
      }
      if (!asked_.empty() && answer_at_ <= time_) {
        for (const std::string& host : asked_)
          event.answers.push_back({host, down.count(host) == 0, has_steps ? done_ : -1,
                                   running_ && stopped.count(host) > 0});
        asked_.clear();
      }
      if (event.ended || event.signal != 0 || !event.answers.empty() || time_ >= until)
        return event;
    }
  }
  std::int64_t step() override {
    const bool complete = !running_ && std::ssize(starts) > incomplete;
    return has_steps && !complete ? step_now() : -1;
  }
  bool ranks_run() override { return ranks; }
  void forget() override { ++forgotten; }
  void tell(const std::string& line) override { lines.push_back(line); }

  void receive(int signal) { signal_ = signal; }
  void end_at(double time, const End& end) {
    ends_ = time;
    end_ = end;
    running_ = true;
  }
  /// `host` loses its power: steps stop, and mpirun does not notice.
  void cut(const std::string& host) {
    down.insert(host);
    const std::vector<HostRange>& used = starts.back();
    if (std::ranges::find(used, host, &HostRange::host) == used.end()) return;
    before_ = step_now();
    speed_ = 0;
    ends_ = 1e9;
  }
  /// Steps stop.
  void stall() {
    before_ = step_now();
    speed_ = 0;
  }

 private:
  std::int64_t step_now() const {
    const double trained = time_ - begin_ - 0.5;
    return trained < -1e-6 ? -1 : before_ + static_cast<std::int64_t>(speed_ * trained);
  }

  double time_ = 1000, begin_ = 0, speed_ = 0, ends_ = 0, answer_at_ = 0;
  std::int64_t done_ = -1, before_ = 0;
  End end_;
  bool running_ = false;
  int signal_ = 0;
  std::vector<std::string> asked_;
};

/// Four hosts of two ranks.
const std::vector<Host> kHosts = {{"a", 2}, {"b", 2}, {"c", 2}, {"d", 2}};

int supervise(FakeMachines& machines, SupervisorOptions options = {.hosts = kHosts, .ranks = 8}) {
  return Supervisor(options, machines).run();
}

TEST(Supervisor, EveryExitCode) {
  // The code of mpirun, and the number of starts.
  const std::map<int, int> starts = {
      {kExitSuccess, 1},  {kExitFailure, 3},  {kExitUsage, 1}, {kExitData, 1},
      {kExitDiverged, 1}, {kExitLost, 3},     {kExitHang, 3},  {kExitInUse, 1},
      {kExitStorage, 1},  {kExitRequeue, 1},  {126, 1},        {127, 1},
      {128 + SIGKILL, 3}, {128 + SIGSEGV, 3}, {205, 3},        {255, 3}};
  for (const auto& [code, count] : starts) {
    FakeMachines machines;
    machines.plays = {{.end = {code}, .per_second = 0}};
    EXPECT_EQ(supervise(machines), code);
    EXPECT_EQ(std::ssize(machines.starts), count) << code;
    const bool useless = code == kExitSuccess || code == kExitDiverged;
    EXPECT_EQ(machines.forgotten, useless ? 1 : 0) << code << ": the same command resumes";
    EXPECT_EQ(machines.lines.empty(), count == 1) << code;
  }
  EXPECT_FALSE(cause_of({128 + SIGPIPE, true}).restarts);
  EXPECT_EQ(cause_of({128 + SIGKILL}).what, "a rank was killed by SIGKILL");
  EXPECT_EQ(cause_of({128 + SIGKILL, true}).what, "mpirun was killed by SIGKILL");
}

TEST(Supervisor, OneLineAboutAChange) {
  FakeMachines machines;
  machines.plays = {{2, {kExitLost}}, {1, {kExitSuccess}}};
  machines.later.emplace(1001.9, [&] { machines.down = {"b"}; });
  EXPECT_EQ(supervise(machines), kExitSuccess);
  ASSERT_EQ(machines.lines.size(), 1u);
  EXPECT_EQ(machines.lines[0],
            "lost host b (ranks 2, 3) at step 150; 6 ranks go on from step 150 after 1.5 s");
  EXPECT_EQ(machines.changes[1].what, "lost host b (ranks 2, 3)");
  EXPECT_EQ(machines.changes[1].at, 1002);
  EXPECT_EQ(machines.starts[0].size(), 4u);
  ASSERT_EQ(machines.starts[1].size(), 3u);
  EXPECT_EQ(machines.starts[1][1].host, "c");
  EXPECT_EQ(machines.starts[1][1].first, 2);
  EXPECT_NEAR(machines.times[1] - machines.times[0], 2 + 1, 0.01) << "the limit of an answer";
}

TEST(Supervisor, AnotherHostBecomesTheFirst) {
  FakeMachines machines;
  machines.plays = {{2, {205}}, {1, {kExitSuccess}}};
  machines.later.emplace(1001, [&] { machines.down = {"a"}; });
  EXPECT_EQ(supervise(machines), kExitSuccess);
  EXPECT_EQ(machines.starts[1][0].host, "b");
  EXPECT_EQ(rank_count(machines.starts[1]), 6);
}

TEST(Supervisor, NeitherMoreNorFewerRanksThanAllowed) {
  FakeMachines machines;
  machines.plays = {{2, {kExitLost}}, {2, {kExitLost}}, {2, {kExitSuccess}}};
  machines.later.emplace(1001, [&] { machines.down = {"b"}; });
  machines.later.emplace(1004, [&] { machines.down = {"b", "c", "d"}; });
  EXPECT_EQ(supervise(machines, {.hosts = kHosts, .ranks = 5, .least = 3}), kExitLost);
  EXPECT_EQ(rank_count(machines.starts[0]), 5);
  EXPECT_EQ(rank_count(machines.starts[1]), 5) << "d replaces b";
  EXPECT_EQ(machines.starts.size(), 2u) << "two ranks are too few";
  EXPECT_NE(machines.lines.back().find("2 ranks are left, and --min-np is 3"), std::string::npos);
}

TEST(Supervisor, APoisonedStepEndsTheRun) {
  FakeMachines machines;
  machines.plays = {{2, {139}}, {1, {139}, 0}, {1, {kExitLost}, 0}, {5, {kExitSuccess}}};
  EXPECT_EQ(supervise(machines), kExitLost) << "the last failure";
  EXPECT_EQ(machines.starts.size(), 3u) << "whatever the code is";
  EXPECT_NE(machines.lines.back().find("at step 150; 3 failures without another"),
            std::string::npos);

  FakeMachines advances;
  advances.plays = {{2, {139}}};
  EXPECT_EQ(supervise(advances, {.hosts = kHosts, .ranks = 8, .restarts = 6}), 139);
  EXPECT_EQ(advances.starts.size(), 7u) << "steps reset the count, and --restarts ends it";
}

TEST(Supervisor, LostHostsAreNoFailuresOfTheRanks) {
  FakeMachines machines;
  machines.has_steps = false;
  machines.plays = {{1, {kExitLost}}, {1, {kExitLost}}, {1, {kExitLost}}, {1, {kExitSuccess}}};
  for (const auto& [time, host] : {std::pair{1000.5, "b"}, {1002.5, "c"}, {1004.5, "d"}})
    machines.later.emplace(time, [&machines, host = host] { machines.down.insert(host); });
  EXPECT_EQ(supervise(machines), kExitSuccess) << "three failures of the ranks would end the run";
  EXPECT_EQ(machines.starts.size(), 4u);
  EXPECT_EQ(rank_count(machines.starts.back()), 2);
}

TEST(Supervisor, AHostThatAnswersAgainJoins) {
  FakeMachines machines;
  machines.plays = {{2, {kExitLost}}, {100, {}}, {1, {kExitSuccess}}};
  machines.later.emplace(1001, [&] { machines.down = {"d"}; });
  machines.later.emplace(1020, [&] { machines.down.clear(); });
  EXPECT_EQ(supervise(machines, {.hosts = kHosts, .ranks = 8, .restarts = 1}), kExitSuccess);
  ASSERT_EQ(machines.starts.size(), 3u);
  EXPECT_EQ(machines.sent, std::vector<int>{SIGUSR1});
  EXPECT_EQ(rank_count(machines.starts[2]), 8);
  EXPECT_LT(machines.times[2], 1020 + 5);
  EXPECT_EQ(machines.changes[2].what, "host d joins");
  EXPECT_NE(machines.lines[1].find("8 ranks go on from step"), std::string::npos);
}

TEST(Supervisor, RanksThatAreStartingAreNotStopped) {
  FakeMachines machines;
  machines.plays = {{2, {kExitLost}}, {100, {}, 0.1}, {1, {kExitSuccess}}};
  machines.later.emplace(1001, [&] { machines.down = {"d"}; });
  machines.later.emplace(1003.5, [&] { machines.down.clear(); });
  EXPECT_EQ(supervise(machines), kExitSuccess);
  ASSERT_EQ(machines.starts.size(), 3u);
  EXPECT_GT(machines.times[2] - machines.times[1], 10) << "the time of a step";
}

TEST(Supervisor, AHostThatAnswersButCannotRunRanks) {
  FakeMachines machines;
  machines.plays = {{2, {kExitLost}}, {100, {}}, {0.4, {kExitFailure}}, {9, {kExitSuccess}}};
  machines.later.emplace(1001, [&] { machines.down = {"d"}; });
  machines.later.emplace(1006, [&] { machines.down.clear(); });
  EXPECT_EQ(supervise(machines), kExitSuccess);
  ASSERT_EQ(machines.starts.size(), 4u);
  EXPECT_EQ(rank_count(machines.starts[2]), 8);
  EXPECT_EQ(rank_count(machines.starts[3]), 6) << "d is out again, for ten seconds";
  EXPECT_EQ(machines.changes[3].what, "lost host d (ranks 6, 7)");
}

TEST(Supervisor, TheCoolDownDoubles) {
  HostStates states(kHosts);
  states.lost("b", 100);
  EXPECT_FALSE(states.may_join("a", 200)) << "it is not out";
  EXPECT_FALSE(states.may_join("b", 104.9));
  EXPECT_TRUE(states.may_join("b", 105));
  EXPECT_EQ(states.out(), std::vector<std::string>{"b"});
  double now = 100;
  for (const double cool_down : {10., 20., 40., 80., 160., 320., 600., 600.}) {
    states.join("b");
    states.lost("b", now += 6);
    EXPECT_FALSE(states.may_join("b", now + cool_down - 0.1)) << cool_down;
    EXPECT_TRUE(states.may_join("b", now + cool_down)) << cool_down;
  }
  states.lost("b", now += 6000);
  EXPECT_TRUE(states.may_join("b", now + 5)) << "a long time without a loss";
}

TEST(Supervisor, AHostWithoutPowerIsFoundByItsSilence) {
  FakeMachines machines;
  machines.plays = {{100, {}}, {1, {kExitSuccess}}};
  machines.later.emplace(1010, [&] { machines.cut("c"); });
  EXPECT_EQ(supervise(machines), kExitSuccess);
  EXPECT_EQ(machines.sent, std::vector<int>{SIGKILL});
  EXPECT_LT(machines.times[1], 1010 + 6);
  EXPECT_EQ(machines.questions, 2 + 1) << "none while steps go on";
  EXPECT_NEAR(machines.changes[1].at, 1010, 0.6) << "the last step";
  EXPECT_EQ(machines.changes[1].what, "lost host c (ranks 4, 5)");

  FakeMachines busy;  // it answers again when the ranks have ended
  busy.plays = {{100, {}}, {1, {kExitSuccess}}};
  busy.later.emplace(1010, [&] { busy.cut("c"); });
  busy.is_busy = true;
  EXPECT_EQ(supervise(busy), kExitSuccess);
  ASSERT_EQ(busy.changes.size(), 2u);
  EXPECT_NE(busy.changes[1].what.find("did not answer"), std::string::npos)
      << busy.changes[1].what << ": no rank was stopped or killed by others";

  FakeMachines slow;  // steps of ten seconds, and hosts that answer
  slow.plays = {{1000, {kExitSuccess}, 0.1}};
  EXPECT_EQ(supervise(slow), kExitSuccess);
  EXPECT_TRUE(slow.sent.empty());
  EXPECT_LT(slow.questions, 20);
}

TEST(Supervisor, ASecondHostWithoutPowerIsFoundToo) {
  FakeMachines machines;
  machines.plays = {{1000, {}}, {1000, {}}, {1, {kExitSuccess}}};
  machines.later.emplace(1010, [&] { machines.cut("c"); });
  machines.later.emplace(1030, [&] { machines.cut("b"); });
  machines.later.emplace(1100, [&] { machines.end_at(1100, {kExitSuccess}); });
  EXPECT_EQ(supervise(machines), kExitSuccess);
  ASSERT_EQ(machines.starts.size(), 3u) << "although the first one is asked each second";
  EXPECT_EQ(machines.changes[2].what, "lost host b (ranks 2, 3)");
  EXPECT_LT(machines.times[2], 1030 + 8);
}

TEST(Supervisor, RequestsToStop) {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGHUP}) {
    FakeMachines machines;
    machines.plays = {{100, {}}};
    machines.later.emplace(1003, [&] { machines.receive(signal); });
    EXPECT_EQ(supervise(machines), kExitRequeue);
    EXPECT_EQ(machines.starts.size(), 1u);
    EXPECT_EQ(machines.sent, std::vector<int>{SIGUSR1}) << signal;
    EXPECT_EQ(machines.forgotten, 0) << "of a request before the first step";
  }
  FakeMachines twice;
  twice.plays = {{100, {}}};
  for (const double time : {1003., 1003.05})
    twice.later.emplace(time, [&] { twice.receive(SIGINT); });
  EXPECT_EQ(supervise(twice), 128 + SIGINT);
  EXPECT_EQ(twice.sent, (std::vector<int>{SIGUSR1, SIGKILL}));

  FakeMachines early;  // SIGUSR1 kills ranks that do not handle it yet
  early.plays = {{100, {}}};
  early.later.emplace(1000.1, [&] { early.receive(SIGTERM); });
  early.later.emplace(1000.15, [&] { early.end_at(1000.15, {128 + SIGUSR1}); });
  EXPECT_EQ(supervise(early), kExitRequeue);
  EXPECT_NE(early.lines.back().find("without a checkpoint"), std::string::npos);
}

TEST(Supervisor, MpirunThatDoesNotStartRanks) {
  FakeMachines machines;
  machines.has_steps = machines.ranks = false;
  machines.plays = {{1000, {}}};
  EXPECT_EQ(supervise(machines), kExitHang);
  EXPECT_EQ(machines.starts.size(), 1u);
  EXPECT_EQ(machines.sent, std::vector<int>{SIGKILL});
  ASSERT_EQ(machines.lines.size(), 1u);
  EXPECT_NE(machines.lines[0].find("started no rank in 12"), std::string::npos);

  FakeMachines stopped;  // one request is enough
  stopped.has_steps = stopped.ranks = false;
  stopped.plays = machines.plays;
  stopped.later.emplace(1003, [&] { stopped.receive(SIGTERM); });
  stopped.later.emplace(1010, [&] { ADD_FAILURE() << "it waits"; });
  EXPECT_EQ(supervise(stopped), kExitRequeue);
}

TEST(Supervisor, MpirunThatDoesNotEndAfterTheRanks) {
  FakeMachines machines;
  machines.plays = {{1000, {}}, {1, {kExitSuccess}}};
  machines.later.emplace(1010, [&] { machines.ranks = false; });
  machines.later.emplace(1045, [&] { machines.ranks = true; });
  EXPECT_EQ(supervise(machines), kExitSuccess);
  ASSERT_EQ(machines.starts.size(), 2u);
  EXPECT_GT(machines.times[1], 1010 + 20) << "mpirun gets some time";
  EXPECT_EQ(machines.changes[1].what, "mpirun did not end after the ranks in 30 s");
}

TEST(Supervisor, ARankThatIsStoppedWhileItStarts) {
  FakeMachines machines;
  machines.has_steps = false;
  machines.plays = {{1000, {}}, {1, {kExitSuccess}}};
  machines.stopped = {"b"};
  EXPECT_EQ(supervise(machines), kExitSuccess);
  ASSERT_EQ(machines.starts.size(), 2u);
  EXPECT_EQ(rank_count(machines.starts[1]), rank_count(machines.starts[0])) << "no host is lost";
  EXPECT_LT(machines.times[1] - machines.times[0], 6);
  ASSERT_EQ(machines.lines.size(), 1u);
  EXPECT_NE(machines.lines[0].find("a rank was stopped by a signal"), std::string::npos);

  FakeMachines trains;  // then the ranks notice it themselves
  trains.plays = {{20, {kExitSuccess}}};
  trains.later.emplace(1005, [&] { trains.stall(); });
  trains.stopped = {"b"};
  EXPECT_EQ(supervise(trains), kExitSuccess);
  EXPECT_EQ(trains.starts.size(), 1u);
  EXPECT_GT(trains.questions, 0);
}

TEST(Supervisor, WaitsBeforeTheLastStartAtAStep) {
  FakeMachines machines;
  machines.plays = {{.seconds = 0.1, .end = {kExitLost}}};
  EXPECT_EQ(supervise(machines), kExitLost);
  ASSERT_EQ(machines.times.size(), 3u);
  EXPECT_LT(machines.times[1] - machines.times[0], 1);
  EXPECT_GE(machines.times[2] - machines.times[1], 2) << "memory may be full for a while";

  FakeMachines stopped;
  stopped.plays = machines.plays;
  stopped.later.emplace(1001, [&] { stopped.receive(SIGTERM); });
  EXPECT_EQ(supervise(stopped), kExitRequeue) << "stopped during the pause";
  EXPECT_EQ(stopped.starts.size(), 2u);
  ASSERT_EQ(stopped.lines.size(), 2u);
  EXPECT_NE(stopped.lines[0].find("stop requested"), std::string::npos);
  EXPECT_NE(stopped.lines[1].find("was lost"), std::string::npos) << "no line is lost";
}

TEST(Supervisor, ARequestToStopWhileHostsAreAsked) {
  FakeMachines machines;
  machines.plays = {{2, {kExitLost}}};
  machines.later.emplace(1002.05, [&] { machines.receive(SIGTERM); });  // before their answers
  EXPECT_EQ(supervise(machines), kExitRequeue);
  EXPECT_EQ(machines.starts.size(), 1u);
  ASSERT_EQ(machines.lines.size(), 1u);
  EXPECT_NE(machines.lines[0].find("stop requested"), std::string::npos) << "the reason of the end";
}

TEST(Supervisor, AnErrorOfTheSetUp) {
  FakeMachines machines;
  machines.plays = {{.seconds = 0.2, .end = {kExitFailure}}};
  EXPECT_EQ(supervise(machines), kExitFailure);
  EXPECT_EQ(machines.starts.size(), 1u) << "it would come again";
  ASSERT_EQ(machines.lines.size(), 1u) << "a signal to mpirun prints nothing else";
  EXPECT_NE(machines.lines[0].find("before the first step"), std::string::npos);

  FakeMachines down;  // a host is down already at the first start
  down.plays = {{.seconds = 0.2, .end = {kExitFailure}}, {1, {kExitSuccess}}};
  down.down = {"a"};
  EXPECT_EQ(supervise(down), kExitSuccess);
  EXPECT_EQ(rank_count(down.starts.back()), 6);
}

TEST(Supervisor, MpirunThatLosesAHostWithoutAnError) {
  FakeMachines machines;
  machines.incomplete = 1;
  machines.plays = {{2, {kExitSuccess}}};
  EXPECT_EQ(supervise(machines), kExitSuccess);
  EXPECT_EQ(machines.starts.size(), 2u);
}

TEST(Supervisor, MpirunThatWasStoppedAndStartedNoRank) {
  for (const bool ranks : {false, true}) {
    FakeMachines machines;
    machines.ranks = ranks;
    machines.plays = {{1, {.was_stopped = true}}, {1, {}}};
    EXPECT_EQ(supervise(machines), kExitSuccess);
    EXPECT_EQ(machines.starts.size(), ranks ? 1u : 2u);
  }
}

TEST(Supervisor, AProgramWithoutSteps) {
  FakeMachines machines;
  machines.has_steps = false;
  machines.plays = {{100, {kExitLost}}, {100, {kExitSuccess}}};
  EXPECT_EQ(supervise(machines), kExitSuccess);
  ASSERT_EQ(machines.lines.size(), 1u);
  EXPECT_EQ(machines.lines[0], "a rank or a host was lost; 8 ranks go on");
}

}  // namespace
}  // namespace lockstep
