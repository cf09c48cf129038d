// Groups of parameters by name: the first match counts, a rate of 0 means no step, and a group
// without parameters is refused.
#include "net/parameter_groups.h"

#include <gtest/gtest.h>

#include <cmath>

#include "net/clip.h"
#include "net/optimizer.h"
#include "tests/support/error_of.h"
#include "tests/support/update.h"

namespace lockstep {
namespace {

/// Weights and biases of two layers, and a statistic.
Layout four_parameters() {
  Layout layout;
  const auto add = [&](const char* name, Shape shape, float l2, float follow) {
    layout.parameters.push_back({name, shape, {}, l2, {layout.count, shape.count()}, 0, follow});
    layout.count += Layout::aligned(shape.count());
  };
  add("block/two/weights", {4, 5}, 0.5f, 0);
  add("block/two/biases", {5}, 0, 0);
  add("block/two/mean", {5}, 0, 0.25f);
  add("one/weights", {3, 7}, 0, 0);
  add("one/biases", {7}, 0, 0);
  return layout;
}

const Parameter& named(const Layout& layout, std::string_view name) {
  for (const Parameter& parameter : layout.parameters)
    if (parameter.name == name) return parameter;
  throw std::logic_error("no such parameter");
}

/// The state after `kSteps` steps with momentum: parameters, then the momentum.
struct Outcome {
  explicit Outcome(const Layout& layout, float rate = 0.5f)
      : parameters(layout.count, 2.0f), momentum(parameters.size()) {
    const auto sgd = make_optimizer("sgd", {{"momentum", 0.5f}});
    const std::vector<float> table = decays(layout, 0.125f);
    std::vector<float> gradients(parameters.size(), 1.0f), average = parameters;
    const TrainingState state{
        parameters.data(), {momentum.data()}, average.data(), gradients.data(), table.data()};
    HostStream stream;
    for (int step = 0; step < 3; ++step) {
      const UpdateRates now{rate, 0.5f};
      update(stream, layout, {0, layout.count}, *sgd, state, &now);
    }
  }
  float of(const std::vector<float>& arena, const Parameter& parameter) const {
    return arena[parameter.range.begin];
  }
  std::vector<float> parameters, momentum;
};

TEST(ParameterGroups, TheFirstMatchCounts) {
  Layout layout = four_parameters();
  const ParameterGroup groups[] = {{"*/biases", 0.25f, 0.0f}, {"block/*", 0.5f, 0.75f}};
  apply_groups(groups, layout);
  EXPECT_EQ(named(layout, "block/two/biases").rate, 0.25f);
  EXPECT_EQ(named(layout, "block/two/weights").rate, 0.5f);
  EXPECT_EQ(named(layout, "block/two/mean").rate, 1) << "a statistic has no rate";
  EXPECT_EQ(named(layout, "one/weights").rate, 1);
  EXPECT_EQ(decay_of(named(layout, "block/two/weights"), 8), 0.75f) << "instead of l2 and 8";
  EXPECT_EQ(decay_of(named(layout, "block/two/biases"), 8), 0);
  EXPECT_EQ(decay_of(named(layout, "one/weights"), 8), 8);
  EXPECT_EQ(group_of("one/biases", groups), &groups[0]);
  EXPECT_EQ(group_of("one/weights", groups), nullptr);
}

TEST(ParameterGroups, TheRateIsAFactor) {
  Layout layout = four_parameters();
  const Outcome whole(layout), quarter(layout, 0.125f);
  const ParameterGroup groups[] = {{"one/*", 0.25f, {}}};
  apply_groups(groups, layout);
  const Outcome outcome(layout);
  for (const Parameter& parameter : layout.parameters) {
    const Outcome& wanted = parameter.name.starts_with("one/") ? quarter : whole;
    EXPECT_EQ(outcome.of(outcome.parameters, parameter), wanted.of(wanted.parameters, parameter))
        << parameter.name;
  }
}

TEST(ParameterGroups, EpochsSetTheirOwnSchedule) {
  Layout layout = four_parameters();
  const ParameterGroup groups[] = {
      {"one/weights", 1, {}, 3}, {"one/biases", 0.5f, {}, 1.5}, {"block/two/biases", 1, {}, 3}};
  apply_groups(groups, layout);
  EXPECT_EQ(layout.epochs, (std::vector<double>{3, 1.5})) << "in the order of the arena";
  std::vector<float> parameters(layout.count), gradients(parameters);
  std::fill(gradients.begin(), gradients.end(), 1.0f);
  const std::vector<float> table = decays(layout, 0);
  const TrainingState state{parameters.data(), {}, nullptr, gradients.data(), table.data()};
  const UpdateRates now{.rate = 0.5f, .shares = {1, 0.25f, 0.125f, 1}};
  HostStream stream;
  update(stream, layout, {0, layout.count}, *make_optimizer("sgd", {}), state, &now);
  const auto moved = [&](const char* name) { return -parameters[named(layout, name).range.begin]; };
  EXPECT_EQ(moved("block/two/weights"), 0.5f);
  EXPECT_EQ(moved("block/two/biases"), 0.125f);
  EXPECT_EQ(moved("one/weights"), 0.125f);
  EXPECT_EQ(moved("one/biases"), 0.5f * 0.5f * 0.125f);
  const ParameterGroup four[] = {{"one/weights", 1, {}, 1},
                                 {"one/biases", 1, {}, 2},
                                 {"*weights", 1, {}, 3},
                                 {"*biases", 1, {}, 4}};
  Layout fresh = four_parameters();
  EXPECT_TRUE(mentions(error_of([&] { apply_groups(four, fresh); }), {"--group", "3", "epochs"}));
}

TEST(ParameterGroups, WithoutARateNothingMoves) {
  Layout layout = four_parameters();
  const Outcome whole(layout);
  const ParameterGroup groups[] = {{"*/weights", 0, 3.0f}};
  apply_groups(groups, layout);
  const Outcome outcome(layout);
  for (const Parameter& parameter : layout.parameters) {
    const bool frozen = parameter.name.ends_with("/weights");
    EXPECT_EQ(outcome.of(outcome.parameters, parameter),
              frozen ? 2 : whole.of(whole.parameters, parameter))
        << parameter.name;
    if (!frozen) continue;
    EXPECT_EQ(outcome.of(outcome.momentum, parameter), 0) << parameter.name;
    EXPECT_EQ(decay_of(parameter, 8), 0) << "it is no part of the penalty";
  }
}

TEST(ParameterGroups, FrozenParametersDoNotCountInClipping) {
  Layout layout = four_parameters();
  const auto device = make_cpu_device(1);
  const ParameterGroup groups[] = {{"*weights", 0, {}}};
  apply_groups(groups, layout);
  std::vector<float> gradients(layout.count, 1.0f);
  HostStream stream;
  UpdateRates now;
  GradientClip(*device, layout, 1).enqueue(stream, gradients.data(), &now);
  EXPECT_FLOAT_EQ(now.scale, static_cast<float>(1 / std::sqrt(12.0))) << "of 5 and 7 biases";
}

TEST(ParameterGroups, RefusesGroupsWithoutParameters) {
  const auto refusal = [](std::initializer_list<ParameterGroup> groups) {
    Layout layout = four_parameters();
    return error_of([&] { apply_groups(std::vector<ParameterGroup>(groups), layout); });
  };
  EXPECT_TRUE(mentions(refusal({{"two*", 0, {}}}), {"--group two*", "one/biases", "one/weights",
                                                    "block/two/biases", "block/two/weights"}));
  EXPECT_NE(refusal({{"*/mean", 0, {}}}), "") << "a statistic";
  EXPECT_TRUE(
      mentions(refusal({{"*/weights", 0, {}}, {"one/weights", 1, {}}}), {"--group one/weights"}));
}

}  // namespace
}  // namespace lockstep
