#include "src/data/standard.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "src/base/check.h"
#include "src/base/plural.h"

namespace lockstep {
namespace {

/// Pixels are 0 to 255, so other means and deviations come from damage.
constexpr double kLargest = 1e6, kLeast = 1e-6;

}  // namespace

std::string to_text(const Standard& standard, std::int64_t channels) {
  const auto numbers = [&](const std::array<float, 4>& values) {
    const std::vector<double> exact(values.begin(), values.begin() + channels);
    return fmt::format("{}", fmt::join(exact, ", "));
  };
  return fmt::format(R"({{"mean": [{}], "deviation": [{}]}})", numbers(standard.mean),
                     numbers(standard.deviation));
}

Standard standard_from(const std::string& text, std::int64_t channels) {
  std::vector<double> mean, deviation;
  try {
    const auto object = nlohmann::json::parse(text);
    object.at("mean").get_to(mean);
    object.at("deviation").get_to(deviation);
  } catch (const nlohmann::json::exception&) {
    fail("the checkpoint's normalisation of images is damaged: {}; use another checkpoint",
         text.substr(0, 200));
  }
  require(
      std::ssize(mean) == channels && std::ssize(deviation) == channels,
      "the checkpoint was trained on images with {}, and these images have {}; choose other data",
      counted(std::ssize(mean), "channel"), channels);
  Standard standard;
  for (std::size_t c = 0; c < mean.size(); ++c) {
    standard.mean[c] = static_cast<float>(mean[c]);
    standard.deviation[c] = static_cast<float>(deviation[c]);
    require(
        std::abs(mean[c]) <= kLargest && deviation[c] >= kLeast && deviation[c] <= kLargest,
        "the checkpoint's normalisation of images is damaged: mean {}, deviation {}; use another",
        mean[c], deviation[c]);
  }
  return standard;
}

}  // namespace lockstep
