#include "src/data/standard.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "src/check.h"
#include "src/plural.h"

namespace lockstep {

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
    fail("the normalisation of images cannot be read: {}", text.substr(0, 200));
  }
  require(std::ssize(mean) == channels && std::ssize(deviation) == channels,
          "the normalisation is of images with {}, and these images have {}",
          counted(std::ssize(mean), "channel"), channels);
  Standard standard;
  for (std::size_t c = 0; c < mean.size(); ++c) {
    standard.mean[c] = static_cast<float>(mean[c]);
    standard.deviation[c] = static_cast<float>(deviation[c]);
    require(std::isfinite(standard.mean[c]) && std::isfinite(standard.deviation[c]) &&
                standard.deviation[c] > 0,
            "the normalisation of images divides by {} or subtracts {}", deviation[c], mean[c]);
  }
  return standard;
}

}  // namespace lockstep
