// Groups of parameters by name: the first match counts, a rate of 0 means no step, and a group
// without parameters is refused.
#include "net/parameter_groups.h"

#include <gtest/gtest.h>

#include <cmath>

#include "net/clip.h"
#include "tests/support/expect_error.h"
#include "tests/unit/optimizer_arenas.h"

namespace lockstep {
namespace {

/// Weights and biases of two layers, and a statistic, after `groups` were applied.
Layout grouped(const std::vector<ParameterGroup>& groups) {
  Layout layout = lay_out({{"block/two/weights", {4, 5}, 0.5f},
                           {"block/two/biases", {5}},
                           {"block/two/mean", {5}, 0, /*follow=*/0.25f},
                           {"one/weights", {3, 7}},
                           {"one/biases", {7}}});
  if (!groups.empty()) apply_groups(groups, layout);
  return layout;
}

/// The arenas after three steps with momentum.
Arenas stepped(const Layout& layout, float rate = 0.5f) {
  const auto sgd = make_optimizer("sgd", {{"momentum", 0.5f}});
  Arenas arenas(layout, *sgd, 0.125f);
  for (auto* arena : {&arenas.parameters, &arenas.average})
    std::fill(arena->begin(), arena->end(), 2.0f);
  std::fill(arenas.gradients.begin(), arenas.gradients.end(), 1.0f);
  for (int step = 0; step < 3; ++step) arenas.step(layout, *sgd, {rate, 0.5f});
  return arenas;
}

TEST(ParameterGroups, TheFirstMatchCounts) {
  const std::vector<ParameterGroup> groups{{"*/biases", 0.25f, 0.0f}, {"block/*", 0.5f, 0.75f}};
  const Layout layout = grouped(groups);
  EXPECT_EQ(parameter_named(layout, "block/two/biases").rate, 0.25f);
  EXPECT_EQ(parameter_named(layout, "block/two/weights").rate, 0.5f);
  EXPECT_EQ(parameter_named(layout, "block/two/mean").rate, 1) << "a statistic has no rate";
  EXPECT_EQ(parameter_named(layout, "one/weights").rate, 1);
  EXPECT_EQ(decay_of(parameter_named(layout, "block/two/weights"), 8), 0.75f)
      << "instead of l2 and 8";
  EXPECT_EQ(decay_of(parameter_named(layout, "block/two/biases"), 8), 0);
  EXPECT_EQ(decay_of(parameter_named(layout, "one/weights"), 8), 8);
  EXPECT_EQ(group_of("one/biases", groups), &groups[0]);
  EXPECT_EQ(group_of("one/weights", groups), nullptr);
}

TEST(ParameterGroups, TheRateIsAFactor) {
  const Arenas whole = stepped(grouped({})), quarter = stepped(grouped({}), 0.125f);
  const Layout layout = grouped({{"one/*", 0.25f, {}}});
  const Arenas is = stepped(layout);
  for (const Parameter& parameter : layout.parameters) {
    const std::int64_t first = parameter.range.begin;
    const Arenas& wanted = parameter.name.starts_with("one/") ? quarter : whole;
    EXPECT_EQ(is.parameters[first], wanted.parameters[first]) << parameter.name;
  }
}

TEST(ParameterGroups, EpochsSetTheirOwnSchedule) {
  const Layout layout = grouped(
      {{"one/weights", 1, {}, 3}, {"one/biases", 0.5f, {}, 1.5}, {"block/two/biases", 1, {}, 3}});
  EXPECT_EQ(layout.epochs, (std::vector<double>{3, 1.5})) << "in the order of the arena";
  const auto sgd = make_optimizer("sgd", {});
  Arenas arenas(layout, *sgd);
  std::fill(arenas.gradients.begin(), arenas.gradients.end(), 1.0f);
  arenas.step(layout, *sgd, {.rate = 0.5f, .shares = {1, 0.25f, 0.125f, 1}});
  const auto moved = [&](const char* name) {
    return -arenas.parameters[parameter_named(layout, name).range.begin];
  };
  EXPECT_EQ(moved("block/two/weights"), 0.5f);
  EXPECT_EQ(moved("block/two/biases"), 0.125f);
  EXPECT_EQ(moved("one/weights"), 0.125f);
  EXPECT_EQ(moved("one/biases"), 0.5f * 0.5f * 0.125f);
  expect_error({"--group", "3", "epochs"}, [] {
    grouped({{"one/weights", 1, {}, 1},
             {"one/biases", 1, {}, 2},
             {"*weights", 1, {}, 3},
             {"*biases", 1, {}, 4}});
  });
}

TEST(ParameterGroups, WithoutARateNothingMoves) {
  const Arenas whole = stepped(grouped({}));
  const Layout layout = grouped({{"*/weights", 0, 3.0f}});
  const Arenas is = stepped(layout);
  for (const Parameter& parameter : layout.parameters) {
    const std::int64_t first = parameter.range.begin;
    const bool frozen = parameter.name.ends_with("/weights");
    EXPECT_EQ(is.parameters[first], frozen ? 2 : whole.parameters[first]) << parameter.name;
    if (!frozen) continue;
    EXPECT_EQ(is.slots[0][first], 0) << parameter.name;
    EXPECT_EQ(decay_of(parameter, 8), 0) << "it is no part of the penalty";
  }
}

TEST(ParameterGroups, FrozenParametersDoNotCountInClipping) {
  const Layout layout = grouped({{"*weights", 0, {}}});
  const auto device = make_cpu_device(1);
  std::vector<float> gradients(layout.count, 1.0f);
  HostStream stream;
  UpdateRates now;
  GradientClip(*device, layout, 1).enqueue(stream, gradients.data(), &now);
  EXPECT_FLOAT_EQ(now.scale, static_cast<float>(1 / std::sqrt(12.0))) << "of 5 and 7 biases";
}

TEST(ParameterGroups, RefusesGroupsWithoutParameters) {
  expect_error(
      {"--group two*", "one/biases", "one/weights", "block/two/biases", "block/two/weights"}, [] {
        grouped({{"two*", 0, {}}});
      });
  expect_error({"--group */mean"}, [] { grouped({{"*/mean", 0, {}}}); });  // a statistic
  expect_error({"--group one/weights"}, [] {
    grouped({{"*/weights", 0, {}}, {"one/weights", 1, {}}});
  });
}

}  // namespace
}  // namespace lockstep
