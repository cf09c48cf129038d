#include <array>
#include <cmath>

#include "src/base/check.h"
#include "src/data/sets/newswires.h"

namespace lockstep {
namespace {

constexpr std::int32_t kFirstWord = 4, kWordsOfTopic = 20;

class Topics : public Dataset {
 public:
  enum class Part : std::uint32_t { train = 0, test = 1 };

  Topics(std::uint64_t seed, Part part, std::int64_t size)
      : Dataset(kNewswireFormat), seed_(seed), part_(part), size_(size) {}

  std::int64_t size() const override { return size_; }
  int classes() const override { return kTopics; }
  std::int32_t label(std::int64_t index) const override {
    return static_cast<std::int32_t>(index % kTopics);
  }
  /// One word in eight is of the topic; the others are those of all texts, the frequent ones more
  /// often.
  const std::uint8_t* stored(std::int64_t index, std::uint8_t* buffer) const override {
    Random pen(seed_, Purpose::generate, static_cast<std::uint32_t>(part_),
               static_cast<std::uint32_t>(index));
    std::array<std::int32_t, kNewswireLength> text;
    const std::size_t length = 30 + pen.below(static_cast<std::uint32_t>(kNewswireLength) - 30);
    text[0] = 1;
    for (std::size_t i = 1; i < length; ++i) {
      const bool of_topic = pen.below(8) == 0;
      const float place = pen.uniform();
      const auto any = static_cast<std::int32_t>(static_cast<float>(kNewswireWords - kFirstWord) *
                                                 place * place * place);
      text[i] =
          kFirstWord + (of_topic ? 1000 + label(index) * kWordsOfTopic + any % kWordsOfTopic : any);
    }
    return store_newswire({text.data(), length}, buffer);
  }
  std::string describe() const override {
    return fmt::format("generated texts, {} {} texts", size_,
                       part_ == Part::train ? "training" : "test");
  }

 private:
  std::uint64_t seed_;
  Part part_;
  std::int64_t size_;
};

}  // namespace

DatasetPair open_topics(const std::filesystem::path& /*directory*/, std::uint64_t seed) {
  DatasetPair pair;
  pair.train = std::make_unique<Topics>(seed, Topics::Part::train, 8982);
  pair.test = std::make_unique<Topics>(seed, Topics::Part::test, 2246);
  pair.class_names = topic_names();
  pair.identity = fmt::format("generated texts = seed {}, {} and {}\n", seed, pair.train->size(),
                              pair.test->size());
  return pair;
}

DatasetEntry topics() {
  return {.name = "topics",
          .about = "generated texts of the shape of Reuters' newswires; needs no files",
          .files = "",
          .stands_for = "reuters",
          .model = "reuters",
          .steps = 500,
          .open = open_topics};
}

}  // namespace lockstep
