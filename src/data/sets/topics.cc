// Generated texts of the shape of Reuters' newswires. A text consists of frequent words, and of
// some words of its topic.

#include <array>

#include "src/data/sets/generated.h"
#include "src/data/sets/newswires.h"
#include "src/data/sets/stored_texts.h"

namespace lockstep {
namespace {

constexpr std::int32_t kFirstWord = 4, kWordsOfTopic = 20;

/// One word in eight belongs to the topic. The others come from all words, mostly frequent ones.
void draw(int topic, Random& random, std::uint8_t* bytes) {
  std::array<std::int32_t, kNewswireLength> text;
  const std::size_t length = 30 + random.below(static_cast<std::uint32_t>(kNewswireLength) - 30);
  text[0] = 1;
  for (std::size_t i = 1; i < length; ++i) {
    const bool of_topic = random.below(8) == 0;
    const float place = random.uniform();
    // Words are numbered by frequency, and the cube makes small numbers frequent.
    const auto any = static_cast<std::int32_t>(static_cast<float>(kNewswireWords - kFirstWord) *
                                               place * place * place);
    text[i] = kFirstWord + (of_topic ? 1000 + topic * kWordsOfTopic + any % kWordsOfTopic : any);
  }
  store_words({text.data(), length}, kNewswireLength, bytes);
}

OpenedData open(const DataSource& source) {
  return generate({.about = "generated texts",
                   .name = "generated texts",
                   .unit = "texts",
                   .format = kNewswireFormat,
                   .class_names = topic_names(),
                   .train = 8982,
                   .test = 2246,
                   .draw = draw},
                  source.seed);
}

}  // namespace

DatasetEntry topics() {
  return {.name = "topics",
          .about = "generated texts of the shape of Reuters' newswires; needs no files",
          .stands_for = "reuters",
          .model = "reuters",
          .steps = 500,
          .open = open};
}

}  // namespace lockstep
