// Optimizers against what PyTorch and Keras make of the same start and gradients, step by step, as
// recorded by tests/data/optimizers.py.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/expect_error.h"
#include "tests/unit/optimizer_arenas.h"

namespace lockstep {
namespace {

using nlohmann::json;

TEST(OptimizerFigures, MatchPyTorchAndKeras) {
  std::ifstream file(SOURCE_DIR "/tests/data/optimizers.json");
  const json figures = json::parse(file);
  const auto device = make_cpu_device(1);
  std::set<std::string> seen;
  for (const json& row : figures["cases"]) {
    const std::string name = row["optimizer"];
    SCOPED_TRACE(name + " of " + std::string(row["by"]) + " with " + row["options"].dump());
    seen.insert(name);
    OptimizerOptions options;
    for (const auto& [option, value] : row["options"].items()) options[option] = value;
    const json& shape = row["shape"];
    const Shape weights =
        shape.size() == 2 ? Shape{shape[0], shape[1]} : Shape{shape[0], shape[1], shape[2]};
    const Layout layout = lay_out({{"one/weights", weights}, {"one/biases", {3}}});
    const auto optimizer = make_optimizer(name, options);
    optimizer->plan(*device, layout);
    Arenas arenas(layout, *optimizer, row["decay"]);
    const auto place = [&](std::vector<float>& arena, std::size_t array, std::size_t i) -> float& {
      return arena[static_cast<std::size_t>(layout.parameters[array].range.begin) + i];
    };
    const auto fill = [&](std::vector<float>& arena, const json& arrays) {
      for (std::size_t array = 0; array < arrays.size(); ++array)
        for (std::size_t i = 0; i < arrays[array].size(); ++i)
          place(arena, array, i) = arrays[array][i];
    };
    fill(arenas.parameters, figures["start"]);
    const json& wanted = row["parameters"];
    ASSERT_GE(wanted.size(), 8u);
    for (std::size_t step = 0; step < wanted.size(); ++step) {
      fill(arenas.gradients, figures["gradients"][step]);
      const auto number = static_cast<std::int64_t>(step);
      arenas.step(layout, *optimizer, rates_of(*optimizer, number, row["rates"][step]));
      for (std::size_t array = 0; array < wanted[step].size(); ++array) {
        for (std::size_t i = 0; i < wanted[step][array].size(); ++i) {
          const double figure = wanted[step][array][i];
          ASSERT_NEAR(place(arenas.parameters, array, i), figure,
                      1e-6 * std::max(std::abs(figure), 0.1))
              << "step " << step << ", array " << array << ", element " << i;
        }
      }
    }
  }
  for (const OptimizerEntry& entry : optimizers())
    EXPECT_TRUE(seen.contains(std::string(entry.name))) << entry.name << " has no figures";
}

TEST(Optimizers, NameTheirSlots) {
  const OptimizerOptions momentum{{"momentum", 0.9f}},
      nesterov{{"momentum", 0.9f}, {"nesterov", 1.0f}};
  EXPECT_EQ(make_optimizer("sgd", {})->slots(), std::vector<std::string>{});
  EXPECT_EQ(make_optimizer("sgd", momentum)->slots(), std::vector<std::string>{"momentum"});
  EXPECT_EQ(make_optimizer("adam", {})->slots(), (std::vector<std::string>{"m", "v"}));
  EXPECT_EQ(describe_optimizer("sgd", {}), "sgd");
  EXPECT_EQ(describe_optimizer("sgd", nesterov), "sgd, momentum 0.9, nesterov");
  EXPECT_EQ(describe_optimizer("adamw", {{"beta1", 0.5f}}),
            "adamw, beta1 0.5, beta2 0.999, epsilon 1e-08");
}

TEST(Optimizers, RefuseConflictingOptions) {
  expect_error({"\"sgd\""}, [] { make_optimizer("sdg", {}); });
  expect_error({"--momentum 0.9"}, [] { make_optimizer("sgd", {{"nesterov", 1.0f}}); });
  expect_error({"option"}, [] { make_optimizer("adam", {{"momentum", 0.9f}}); });
}

TEST(Optimizers, ShareOptionsOfTheSameName) {
  // The command line has one option for each name.
  std::map<std::string_view, const OptimizerOption*> known;
  for (const OptimizerEntry& entry : optimizers()) {
    for (const OptimizerOption& option : entry.options) {
      const OptimizerOption& first = *known.emplace(option.name, &option).first->second;
      EXPECT_EQ(option.about, first.about) << option.name;
      EXPECT_EQ(option.kind, first.kind) << option.name;
      EXPECT_EQ(option.low, first.low) << option.name;
      EXPECT_EQ(option.high, first.high) << option.name;
      EXPECT_EQ(option.above_low, first.above_low) << option.name;
    }
  }
}

}  // namespace
}  // namespace lockstep
