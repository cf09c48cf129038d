// Every algorithm, run without MPI on 1 to 33 ranks by an interpreter that checks the rules of
// collectives/schedule.h.
#include "collectives/algorithms/algorithms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "collectives/sum.h"
#include "src/base/random.h"
#include "tests/support/canonical_sum.h"

namespace lockstep {
namespace {

constexpr std::int64_t kLengths[] = {0, 1, 2, 3, 7, 16, 33, 100, 1023};
constexpr int kMostRanks = 33;

using Memory = std::vector<float>;

/// One algorithm for all ranks: buckets with their scratch, and the schedules.
struct Machine {
  Machine(Algorithm algorithm, int size, std::int64_t count) {
    for (int rank = 0; rank < size; ++rank) {
      schedules.push_back(algorithm(rank, size, count));
      memories.emplace_back(count + schedules.back().scratch, std::nanf(""));
    }
  }

  /// Whether the schedules follow the rules.
  bool well_formed(std::int64_t count) const {
    const std::size_t rounds = schedules[0].rounds.size();
    const int size = static_cast<int>(schedules.size());
    for (int rank = 0; rank < size; ++rank) {
      const Schedule& schedule = schedules[rank];
      if (schedule.count != count || schedule.rounds.size() != rounds) return false;
      const Range all{0, count + schedule.scratch}, bucket{0, count};
      for (const Round& round : schedule.rounds) {
        std::vector<int> written(all.count), read(written.size());
        for (const Action& step : round) {
          if (step.peer < 0 || step.peer >= size || step.range.count <= 0 ||
              !all.contains(step.range))
            return false;
          const bool in_bucket = bucket.contains(step.range);
          if (!in_bucket && step.range.begin < count)
            return false;  // crosses the end of the bucket
          if (step.peer == rank) {
            const Range source{step.source, step.range.count};
            if (step.verb == Verb::send || !all.contains(source)) return false;
            continue;
          }
          for (std::int64_t i = step.range.begin; i < step.range.end(); ++i) {
            ++(step.verb == Verb::send ? read : written)[i];
          }
        }
        for (std::size_t i = 0; i < written.size(); ++i) {
          if (written[i] > 1 || (written[i] == 1 && read[i] > 0)) return false;
        }
      }
    }
    return true;
  }

  /// Runs all rounds. Returns whether every message had its counterpart of the same length.
  bool run() {
    for (std::size_t t = 0; t < schedules[0].rounds.size(); ++t) {
      std::map<std::pair<int, int>, std::vector<Memory>>
          messages;  // by (from, to), in the order listed
      for_each_action(t, [&](int rank, const Action& step) {
        if (step.verb != Verb::send) return true;
        const float* begin = at(rank, step.range.begin);
        messages[{rank, step.peer}].emplace_back(begin, begin + step.range.count);
        return true;
      });
      const bool matched = for_each_action(t, [&](int rank, const Action& step) {
        if (step.verb == Verb::send || step.peer == rank) return true;
        auto& queue = messages[{step.peer, rank}];
        if (queue.empty() || queue.front().size() != static_cast<std::size_t>(step.range.count))
          return false;
        apply(rank, step, queue.front().data());
        queue.erase(queue.begin());
        return true;
      });
      if (!matched) return false;
      for (const auto& [ends, queue] : messages) {
        if (!queue.empty()) return false;  // sent, but not received
      }
      for_each_action(t, [&](int rank, const Action& step) {
        if (step.peer == rank) apply(rank, step, at(rank, step.source));
        return true;
      });
    }
    return true;
  }

  template <class Visit>
  bool for_each_action(std::size_t t, Visit visit) {
    for (std::size_t rank = 0; rank < schedules.size(); ++rank) {
      for (const Action& step : schedules[rank].rounds[t]) {
        if (!visit(static_cast<int>(rank), step)) return false;
      }
    }
    return true;
  }

  void apply(int rank, const Action& step, const float* source) {
    float* to = at(rank, step.range.begin);
    for (std::int64_t i = 0; i < step.range.count; ++i)
      to[i] = step.verb == Verb::add ? to[i] + source[i] : source[i];
  }

  float* at(int rank, std::int64_t address) { return memories[rank].data() + address; }

  std::vector<Schedule> schedules;
  std::vector<Memory> memories;
};

TEST(SumCanonically, SumsAnyNumberOfParts) {
  for (int size = 1; size <= 40; ++size) {
    for (const std::int64_t count : {0, 1, 100, 1023, 1025, 5000}) {
      std::vector<Memory> parts;
      std::vector<float*> places;
      for (int rank = 0; rank < size; ++rank) {
        Random random(3, Purpose::generate, 0, static_cast<std::uint32_t>(rank));
        Memory& part = parts.emplace_back();
        for (std::int64_t i = 0; i < count; ++i)
          part.push_back(std::ldexp(random.normal(), static_cast<int>(i % 9)));
      }
      for (Memory& part : parts) places.push_back(part.data());
      const Memory expected = canonical_sum(parts);
      sum_canonically(places, count);
      for (const Memory& part : parts) EXPECT_EQ(part, expected) << size << " parts of " << count;
    }
  }
}

class EveryAlgorithm : public testing::TestWithParam<AlgorithmEntry> {
 protected:
  /// Calls check(ranks, length) for all lengths on all numbers of ranks, and for buckets of several
  /// segments on a few.
  static void each_case(const std::function<void(int, std::int64_t)>& check) {
    for (int size = 1; size <= kMostRanks; ++size)
      for (const std::int64_t count : kLengths) check(size, count);
    for (const int size : {2, 3, 4, 7}) check(size, 300001);
  }
};

TEST_P(EveryAlgorithm, KeepsTheRulesOfSchedules) {
  each_case([](int size, std::int64_t count) {
    EXPECT_TRUE(Machine(GetParam().algorithm, size, count).well_formed(count))
        << size << " ranks, length " << count;
  });
}

TEST_P(EveryAlgorithm, SumsIntegersExactlyOnEveryRank) {
  each_case([](int size, std::int64_t count) {
    Machine machine(GetParam().algorithm, size, count);
    for (int rank = 0; rank < size; ++rank) {
      for (std::int64_t i = 0; i < count; ++i)
        *machine.at(rank, i) = static_cast<float>((rank + 1) * 100 + i);
    }
    ASSERT_TRUE(machine.run()) << size << " ranks, length " << count << ": messages do not match";
    for (int rank = 0; rank < size; ++rank) {
      for (std::int64_t i = 0; i < count; ++i) {
        const auto sum = static_cast<float>(50 * size * (size + 1) + i * size);
        ASSERT_EQ(*machine.at(rank, i), sum)
            << size << " ranks, length " << count << ", rank " << rank << ", element " << i;
      }
    }
  });
}

TEST_P(EveryAlgorithm, IsCanonicalExactlyIfItsEntrySaysSo) {
  for (int size = 1; size <= kMostRanks; ++size) {
    const std::int64_t count = 200;
    Machine machine(GetParam().algorithm, size, count);
    std::vector<Memory> parts;
    for (int rank = 0; rank < size; ++rank) {
      Random random(7, Purpose::generate, 0, static_cast<std::uint32_t>(rank));
      for (std::int64_t i = 0; i < count; ++i)
        *machine.at(rank, i) = std::ldexp(random.normal(), static_cast<int>(i % 9));
      parts.emplace_back(machine.at(rank, 0), machine.at(rank, count));
    }
    ASSERT_TRUE(machine.run());
    const Memory expected = canonical_sum(parts);
    const Memory first(machine.at(0, 0), machine.at(0, count));
    for (int rank = 1; rank < size; ++rank) {
      EXPECT_EQ(Memory(machine.at(rank, 0), machine.at(rank, count)), first)
          << size << " ranks: rank " << rank << " differs";
    }
    EXPECT_EQ(first == expected, GetParam().canonical(size)) << size << " ranks";
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryAlgorithm,
                         testing::ValuesIn(algorithms().begin(), algorithms().end()),
                         [](const auto& info) { return std::string(info.param.name); });

Algorithm algorithm_called(std::string_view name) {
  for (const AlgorithmEntry& entry : algorithms()) {
    if (entry.name == name) return entry.algorithm;
  }
  return nullptr;
}

constexpr Link kLink{5e-6, 2e9, 8e9};

TEST(Cost, ChunksMakeTheTreeFaster) {
  const std::int64_t count = 4 << 20;
  const double one_by_one =
      2 * (kLink.latency + 4.0 * count / kLink.bandwidth) + 4.0 * count / kLink.add_rate;
  EXPECT_LT(cost(algorithm_called("tree"), 2, count, kLink), 0.75 * one_by_one);
}

TEST(Cost, TwoTreesSendAboutTwiceALongBucketAndOneTreeMore) {
  const std::int64_t count = 16 << 20;
  const double bytes = 4.0 * count;
  for (const int size : {8, 15, 32}) {
    const double seconds = cost(algorithm_called("double_tree"), size, count, kLink);
    EXPECT_LT(seconds, 0.8 * cost(algorithm_called("tree"), size, count, kLink)) << size;
    EXPECT_GT(seconds, 2 * bytes / kLink.bandwidth) << size;
  }
}

TEST(Cost, OfAnEmptyBucketAndOfOneRankIsZero) {
  for (const AlgorithmEntry& entry : algorithms()) {
    EXPECT_EQ(cost(entry.algorithm, 4, 0, kLink), 0) << entry.name;
    EXPECT_EQ(cost(entry.algorithm, 1, 1000, kLink), 0) << entry.name;
  }
}

std::string_view cheapest(int size, std::vector<Range> buckets, const Link& link = kLink) {
  return algorithms_by_cost(size, buckets, link).front()->name;
}

TEST(CheapestPlan, IsDoublingForShortBucketsAndHalvingForLongOnPowersOfTwo) {
  for (const int size : {4, 8, 32}) {
    for (const std::int64_t count : {64, 1024})
      EXPECT_EQ(cheapest(size, {{16, count}}), "recursive_doubling") << size << " " << count;
    for (const std::int64_t count : {1 << 16, 1 << 20})
      EXPECT_EQ(cheapest(size, {{16, count}}), "halving_doubling") << size << " " << count;
  }
}

TEST(CheapestPlan, OnThreeRanksIsDoublingForShortBucketsAndTheTreeForLong) {
  const Range shorter{16, 64}, longer{80, 1 << 20};
  EXPECT_EQ(cheapest(3, {shorter}), "recursive_doubling");
  EXPECT_EQ(cheapest(3, {longer}), "tree");
  EXPECT_EQ(cheapest(3, {shorter, longer}), "tree") << "the cost of all buckets decides";
  EXPECT_EQ(cheapest(3, {longer, shorter}), "tree") << "the cost of all buckets decides";
}

TEST(CheapestPlan, HasFewRoundsIfLatencyIsHigh) {
  Link slow_start = kLink;
  slow_start.latency = 1;
  EXPECT_EQ(cheapest(3, {{16, 1 << 20}}, slow_start), "recursive_doubling");
}

TEST(CheapestPlan, IsCanonicalEvenIfTheRingIsCheaper) {
  const std::vector<Range> buckets = {{16, 1 << 20}};
  const auto seconds = [&](std::string_view name) {
    return cost(algorithm_called(name), 3, buckets[0].count, kLink);
  };
  ASSERT_LT(seconds("ring"), seconds("tree"));
  for (int size = 1; size <= 9; ++size)
    for (const AlgorithmEntry* entry : algorithms_by_cost(size, buckets, kLink))
      EXPECT_TRUE(entry->canonical(size)) << entry->name << " " << size;
}

TEST(PartOf, CoversWithoutOverlap) {
  for (const std::int64_t count : kLengths) {
    for (int parts = 1; parts < 40; ++parts) {
      std::int64_t end = 5;
      for (int part = 0; part < parts; ++part) {
        const Range range = part_of({5, count}, part, parts);
        EXPECT_EQ(range.begin, end);
        end = range.end();
      }
      EXPECT_EQ(end, 5 + count);
    }
  }
}

TEST(PartOf, CutsAtLinesIfAsked) {
  for (const Range range : {Range{32, 0}, Range{32, 5}, Range{64, 1000}, Range{0, 16 * 7}}) {
    for (int parts = 1; parts <= 9; ++parts) {
      std::int64_t at = range.begin;
      for (int part = 0; part < parts; ++part) {
        const Range slice = part_of(range, part, parts, kLineFloats);
        EXPECT_EQ(slice.begin, at);
        EXPECT_GE(slice.count, 0);
        EXPECT_TRUE(slice.begin % 16 == 0) << "of whole lines";
        at = slice.end();
      }
      EXPECT_EQ(at, range.end());
    }
  }
}

}  // namespace
}  // namespace lockstep
