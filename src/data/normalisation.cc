#include "src/data/normalisation.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "src/base/check.h"
#include "src/base/plural.h"
#include "src/data/augment.h"

namespace lockstep {
namespace {

/// Pixels are 0 to 255, so other means and deviations come from damage.
constexpr double kLargest = 1e6, kLeast = 1e-6;

constexpr const char* kKinds[] = {"values", "crops", "images", "words"};

}  // namespace

std::string to_text(const Normalisation& normalisation, std::int64_t channels) {
  const auto numbers = [&](const std::array<float, 4>& values) {
    const std::vector<double> exact(values.begin(), values.begin() + channels);
    return fmt::format("{}", fmt::join(exact, ", "));
  };
  return fmt::format(R"({{"mean": [{}], "deviation": [{}]}})", numbers(normalisation.mean),
                     numbers(normalisation.deviation));
}

Normalisation normalisation_from(const std::string& text, std::int64_t channels) {
  // The text comes from a checkpoint, which another program may have written. So all numbers are
  // checked before they reach a kernel.
  std::vector<double> mean, deviation;
  try {
    const auto object = nlohmann::json::parse(text);
    object.at("mean").get_to(mean);
    object.at("deviation").get_to(deviation);
  } catch (const nlohmann::json::exception&) {
    fail("the checkpoint's normalisation of images is damaged: {}. Use another checkpoint.",
         text.substr(0, 200));
  }
  require(
      std::ssize(mean) == channels && std::ssize(deviation) == channels,
      "the checkpoint was trained on images with {}, and these images have {}. Choose other data.",
      counted(std::ssize(mean), "channel"), channels);
  Normalisation normalisation;
  for (std::size_t c = 0; c < mean.size(); ++c) {
    normalisation.mean[c] = mean[c];
    normalisation.deviation[c] = deviation[c];
    require(
        std::abs(mean[c]) <= kLargest && deviation[c] >= kLeast && deviation[c] <= kLargest,
        "the checkpoint's normalisation of images is damaged: mean {}, deviation {}. Use another "
        "checkpoint.",
        mean[c], deviation[c]);
  }
  return normalisation;
}

std::string to_text(const SampleFormat& format) {
  const nlohmann::ordered_json object{{"kind", kKinds[static_cast<int>(format.kind)]},
                                      {"height", format.size.height},
                                      {"width", format.size.width},
                                      {"channels", format.size.channels},
                                      {"planes", format.size.planes},
                                      {"files", format.files}};
  return object.dump();
}

SampleFormat format_from(const std::string& text) {
  SampleFormat format;
  try {
    const auto object = nlohmann::json::parse(text);
    const auto kind = std::ranges::find(kKinds, object.at("kind"));
    require(kind != std::end(kKinds), "unknown kind");
    format.kind = static_cast<SampleFormat::Kind>(kind - std::begin(kKinds));
    for (const auto& [name, edge] : {std::pair("height", &format.size.height),
                                     {"width", &format.size.width},
                                     {"channels", &format.size.channels}}) {
      object.at(name).get_to(*edge);
      const std::int64_t least = format.kind == SampleFormat::Kind::values ? 0 : 1;
      require(object.at(name).is_number_integer() && *edge >= least && *edge <= 1 << 20, "{} is {}",
              name, *edge);
    }
    const ImageSize& size = format.size;
    require(format.kind != SampleFormat::Kind::crops ||
                (size.height == kImageSide && size.width == kImageSide &&
                 size.channels == kImageChannels),
            "crops come from {} pixels", kImageSide);
    object.at("planes").get_to(format.size.planes);
    object.at("files").get_to(format.files);
  } catch (const std::exception&) {
    fail("the checkpoint's form of samples is damaged: {}. Use another checkpoint.",
         text.substr(0, 200));
  }
  return format;
}

}  // namespace lockstep
