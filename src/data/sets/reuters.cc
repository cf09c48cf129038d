#include <algorithm>

#include "src/base/check.h"
#include "src/data/checksum.h"
#include "src/data/sets/data_folder.h"
#include "src/data/sets/images.h"
#include "src/data/sets/newswires.h"
#include "src/data/sets/stored_texts.h"
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
  const auto count = std::ssize(all.labels);
  require(std::ssize(all.offsets) == count + 1,
          "{} contains {} labels and {} offsets, and needs one offset more than labels. {}", path,
          count, all.offsets.size(), advice);
  // texts_of() indexes the words by them without another check.
  require(std::ranges::is_sorted(all.offsets) && all.offsets.front() == 0 &&
              all.offsets.back() == std::ssize(all.words),
          "{}: its offsets do not cut its {} words into texts. {}", path, all.words.size(), advice);
  require(all.train > 0 && all.train < count,
          "{} has {} of its {} texts for training, and some must be left for tests. {}", path,
          all.train, count, advice);
  return all;
}

/// Texts [begin, end) of `all`.
std::unique_ptr<Dataset> texts_of(const Newswires& all, std::int64_t begin, std::int64_t end,
                                  const char* part, const fs::path& directory) {
  auto set = std::make_unique<StoredTexts>(
      kNewswireLength, kTopics,
      fmt::format("Reuters newswires, {} {} texts from {}", end - begin, part, directory.string()));
  for (std::int64_t i = begin; i < end; ++i)
    set->add(std::span(all.words).subspan(all.offsets[i], all.offsets[i + 1] - all.offsets[i]),
             all.labels[i]);
  return set;
}

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

OpenedData open_reuters(const DataSource& source) {
  const auto& directory = source.place.folder();
  const fs::path file = directory / "reuters.h5";
  const std::string advice = look_into("reuters", "reuters.@(npz?(.part)|h5)", directory, file);
  std::error_code ignored;
  require(fs::exists(file, ignored), "cannot open {}: it does not exist. {}", file.string(),
          advice);
  const Newswires all = read_newswires(file, advice);
  OpenedData pair;
  pair.train = texts_of(all, 0, all.train, "training", directory);
  pair.test = texts_of(all, all.train, std::ssize(all.labels), "test", directory);
  pair.class_names = topic_names();
  for (const auto& [name, values] :
       {std::pair("words", &all.words), {"offsets", &all.offsets}, {"labels", &all.labels}}) {
    pair.identity += fmt::format("reuters.h5 {} = crc32c {:08x}\n", name, crc32c_of(*values));
  }
  pair.identity += fmt::format("reuters.h5 training texts = {}\n", all.train);
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
