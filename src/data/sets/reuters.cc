#include <algorithm>

#include "src/base/check.h"
#include "src/data/sets/data_folder.h"
#include "src/data/sets/images.h"
#include "src/data/sets/newswires.h"
#include "src/files/file_kind.h"
#include "src/files/hdf5.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// The contents of reuters.h5, checked.
struct Newswires {
  std::vector<std::int32_t> words, offsets, labels;
  std::int64_t train = 0;
};

Newswires read_newswires(const fs::path& file, const std::string& advice) {
  constexpr std::int64_t kExact = 1 << 24;  // whole numbers that are read as floats
  require_kind(file, kTextsFile);
  const Hdf5Reader reader(file);
  const std::string path = file.string();
  Newswires all;
  const auto read = [&](const char* name, std::int64_t high, std::vector<std::int32_t>& to) {
    require(reader.has(name) && reader.shape(name).rank() == 1, "{} has no list \"{}\". {}", path,
            name, advice);
    const std::vector<float> values = whole_numbers(reader, path, name, high, advice);
    to.assign(values.begin(), values.end());
  };
  read("values", kNewswireWords - 1, all.words);
  read("offsets", kExact, all.offsets);
  read("labels", kTopics - 1, all.labels);
  require(reader.attributes().contains("train"),
          "{} has no attribute \"train\" with the number of training texts. {}", path, advice);
  all.train = reader.integer("train");
  const auto count = static_cast<std::int64_t>(all.labels.size());
  require(std::ssize(all.offsets) == count + 1,
          "{} contains {} labels and {} offsets, and needs one offset more than labels. {}", path,
          count, all.offsets.size(), advice);
  require(std::is_sorted(all.offsets.begin(), all.offsets.end()) && all.offsets.front() == 0 &&
              all.offsets.back() == std::ssize(all.words),
          "{}: its offsets do not cut its {} words into texts. {}", path, all.words.size(), advice);
  require(all.train > 0 && all.train < count,
          "{} has {} of its {} texts for training, and some must be left for tests. {}", path,
          all.train, count, advice);
  return all;
}

class Reuters : public Dataset {
 public:
  /// Texts [begin, end) of `all`.
  Reuters(std::shared_ptr<const Newswires> all, std::int64_t begin, std::int64_t end,
          std::string about)
      : Dataset(kNewswireFormat),
        all_(std::move(all)),
        begin_(begin),
        end_(end),
        about_(std::move(about)) {}

  std::int64_t size() const override { return end_ - begin_; }
  int classes() const override { return kTopics; }
  std::int32_t label(std::int64_t index) const override { return all_->labels[begin_ + index]; }
  const std::uint8_t* stored(std::int64_t index, std::uint8_t* buffer) const override {
    const auto at = static_cast<std::size_t>(begin_ + index);
    const auto first = static_cast<std::size_t>(all_->offsets[at]),
               end = static_cast<std::size_t>(all_->offsets[at + 1]);
    return store_newswire({all_->words.data() + first, end - first}, buffer);
  }
  std::string describe() const override { return about_; }
  std::size_t bytes() const override {  // of its own part
    const auto words = all_->offsets[end_] - all_->offsets[begin_];
    return (words + 2 * size()) * sizeof(std::int32_t);
  }

 private:
  std::shared_ptr<const Newswires> all_;
  std::int64_t begin_, end_;
  std::string about_;
};

}  // namespace

std::vector<std::string> topic_names() {
  return {"cocoa",        "grain",   "veg-oil",   "earn",
          "acq",          "wheat",   "copper",    "housing",
          "money-supply", "coffee",  "sugar",     "trade",
          "reserves",     "ship",    "cotton",    "carcass",
          "crude",        "nat-gas", "cpi",       "money-fx",
          "interest",     "gnp",     "meal-feed", "alum",
          "oilseed",      "gold",    "tin",       "strategic-metal",
          "livestock",    "retail",  "ipi",       "iron-steel",
          "rubber",       "heat",    "jobs",      "lei",
          "bop",          "zinc",    "orange",    "pet-chem",
          "dlr",          "gas",     "silver",    "wpi",
          "hog",          "lead"};
}

const std::uint8_t* store_newswire(std::span<const std::int32_t> text, std::uint8_t* buffer) {
  const auto length = static_cast<std::size_t>(kNewswireLength);
  auto* words = reinterpret_cast<std::int32_t*>(buffer);
  const std::size_t kept = std::min(text.size(), length);
  std::fill_n(words, length - kept, 0);
  std::copy(text.end() - static_cast<std::ptrdiff_t>(kept), text.end(), words + (length - kept));
  return buffer;
}

OpenedData open_reuters(const DataSource& source) {
  const auto& directory = source.place.folder();
  const fs::path file = directory / "reuters.h5";
  const std::string advice = look_into("reuters", "reuters.@(npz?(.part)|h5)", directory, file);
  std::error_code ignored;
  require(fs::exists(file, ignored), "cannot open {}: it does not exist. {}", file.string(),
          advice);
  const auto all = std::make_shared<const Newswires>(read_newswires(file, advice));
  const auto about = [&](std::int64_t count, const char* part) {
    return fmt::format("Reuters newswires, {} {} texts from {}", count, part, directory.string());
  };
  const auto count = static_cast<std::int64_t>(all->labels.size());
  OpenedData pair;
  pair.train = std::make_unique<Reuters>(all, 0, all->train, about(all->train, "training"));
  pair.test = std::make_unique<Reuters>(all, all->train, count, about(count - all->train, "test"));
  pair.class_names = topic_names();
  for (const auto& [name, values] :
       {std::pair("words", &all->words), {"offsets", &all->offsets}, {"labels", &all->labels}}) {
    pair.identity += fmt::format("reuters.h5 {} = crc32c {:08x}\n", name, crc32c_of(*values));
  }
  pair.identity += fmt::format("reuters.h5 training texts = {}\n", all->train);
  return pair;
}

DatasetEntry reuters() {
  return {.name = "reuters",
          .about = "Reuters newswires by topic, 300 words, 46 classes, from reuters.h5",
          .files = "reuters.h5, which scripts/convert_reuters.py makes",
          .model = "reuters",
          .steps = 2807,
          .open = open_reuters};
}

}  // namespace lockstep
