#include "net/sizes/image_stages.h"

#include "src/base/check.h"
#include "src/base/option_rows.h"
#include "src/base/text.h"

namespace lockstep {

ImageStages parse_stages(const std::string& text) {
  constexpr double kLargest = 1 << 14;  // pixels
  constexpr std::size_t kMost = 16;
  ImageStages stages;
  if (text == "none") return stages;
  for (const std::string& word : split(text, ',')) {
    const std::size_t colon = word.find(':');
    if (colon == word.npos) {
      fail_usage(
          "--small-images: \"{}\" is not PIXELS:EPOCH. An example is 24:5, which trains on images "
          "of 24 pixels until epoch 5.",
          word);
    }
    const ImageStage stage{
        parse_number<std::int64_t>("--small-images: the height", word.substr(0, colon),
                                   Bounds::at_least(1, kLargest)),
        parse_number<double>("--small-images: the epoch", word.substr(colon + 1),
                             Bounds::above_zero())};
    if (!stages.empty() &&
        (stage.height <= stages.back().height || stage.epoch <= stages.back().epoch)) {
      fail_usage("--small-images {}: {} does not exceed what precedes it. Use rising numbers.",
                 text, word);
    }
    stages.push_back(stage);
  }
  if (stages.size() > kMost)
    fail_usage("--small-images: at most {} sizes are possible. Use fewer.", kMost);
  return stages;
}

std::string text_of(const ImageStages& stages) {
  std::vector<std::string> words;
  for (const ImageStage& stage : stages)
    words.push_back(fmt::format("{}:{}", stage.height, stage.epoch));
  return fmt::format("{}", fmt::join(words, ","));
}

}  // namespace lockstep
