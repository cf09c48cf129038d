// Texts of the user as numbers of words.

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "src/base/check.h"
#include "src/base/crc32c.h"
#include "src/base/text.h"
#include "src/data/copies.h"
#include "src/data/dataset.h"
#include "src/data/image/class_folders.h"
#include "src/data/normalisation.h"
#include "src/data/sets/labelled_texts.h"
#include "src/data/text/words.h"
#include "src/data/validation.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLayout =
    "Pass a folder with train/CLASS/*.txt and test/CLASS/*.txt, or a CSV file with columns text "
    "and "
    "label.";

/// Samples of `length` words in memory. Any number of threads may read.
class Texts : public Dataset {
 public:
  Texts(std::int64_t length, int classes, std::string about)
      : Dataset({.kind = SampleFormat::Kind::words, .size = {1, length, 1}}),
        classes_(classes),
        about_(std::move(about)) {}

  void add(const LabelledText& text, std::int32_t label, const Vocabulary& vocabulary) {
    constexpr std::int64_t kExcerpt = 200;  // characters, for reports
    const auto numbers = vocabulary.numbers(text.text, format().size.width);
    const auto first = std::ranges::find_if(
        numbers, [](std::int32_t word) { return word != Vocabulary::kPadding; });
    words_.insert(words_.end(), first, numbers.end());
    ends_.push_back(std::ssize(words_));
    labels_.push_back(label);
    files_.push_back(text.file);
    fingerprints_.push_back(fingerprint_of(text.text));
    excerpts_.push_back(excerpt_of(text.text, kExcerpt));
  }
  std::int64_t size() const override { return std::ssize(labels_); }
  int classes() const override { return classes_; }
  std::int32_t label(std::int64_t index) const override { return labels_[index]; }
  std::string file(std::int64_t index) const override { return files_[index]; }
  std::string excerpt(std::int64_t index) const override { return excerpts_[index]; }
  std::uint64_t fingerprint(std::int64_t index) const override { return fingerprints_[index]; }
  const std::uint8_t* stored(std::int64_t index, std::uint8_t* buffer) const override {
    const std::int64_t begin = index > 0 ? ends_[index - 1] : 0, count = ends_[index] - begin,
                       padding = format().size.width - count;
    auto* words = reinterpret_cast<std::int32_t*>(buffer);
    std::fill_n(words, padding, Vocabulary::kPadding);
    std::copy_n(words_.begin() + begin, count, words + padding);
    return buffer;
  }
  std::string describe() const override { return about_; }
  std::size_t bytes() const override {
    std::size_t sum = (words_.size() + labels_.size()) * sizeof(std::int32_t) +
                      2 * ends_.size() * sizeof(std::int64_t);
    for (const auto* list : {&files_, &excerpts_})
      for (const std::string& text : *list) sum += sizeof text + text.size();
    return sum;
  }

 private:
  int classes_;
  std::string about_;
  std::vector<std::int32_t> words_, labels_;  ///< words without padding
  std::vector<std::int64_t> ends_;            ///< of each text in words_
  std::vector<std::string> files_, excerpts_;
  std::vector<std::uint64_t> fingerprints_;
};

/// The names of the classes of some texts, sorted.
std::vector<std::string> classes_of(const std::vector<LabelledText>& texts) {
  std::set<std::string> names;
  for (const LabelledText& text : texts) names.insert(text.label);
  return {names.begin(), names.end()};
}

/// Moves training texts to validation. A text's key is its name.
void divide(const Split& split, LabelledTexts& all) {
  std::vector<LabelledText> texts = std::move(all.parts[kTrain]), training;
  const std::vector<std::string> names = classes_of(texts);
  std::vector<std::int32_t> labels;
  for (const LabelledText& text : texts) {
    const auto place = std::ranges::lower_bound(names, text.label);
    labels.push_back(static_cast<std::int32_t>(place - names.begin()));
  }
  const std::vector<bool> held =
      held_out(split, labels, [&](std::int64_t i) { return texts[i].key; });
  for (std::size_t i = 0; i < texts.size(); ++i)
    (held[i] ? all.parts[kValidation] : training).push_back(std::move(texts[i]));
  all.parts[kTrain] = std::move(training);
}

std::string identity_of(SetPart part, const std::vector<LabelledText>& texts) {
  std::uint32_t checksum = 0;
  for (const LabelledText& text : texts)
    checksum = crc32c(text.label + '\n', crc32c(text.text + '\n', checksum));
  return fmt::format("{} texts = {}, crc32c of texts and classes {:08x}\n", kPartNames[part],
                     texts.size(), checksum);
}

/// The set of one part; null: it has no texts. `data` gains its line of identity.
std::unique_ptr<Dataset> set_of(const LabelledTexts& all, SetPart part, std::int64_t length,
                                const Vocabulary& vocabulary, const fs::path& folder,
                                OpenedData& data) {
  const std::vector<LabelledText>& texts = all.parts[part];
  if (texts.empty()) return nullptr;
  const std::vector<std::string>& names = data.class_names;
  require_known_classes(folder, classes_of(texts), names, "the training set");
  auto set = std::make_unique<Texts>(length, static_cast<int>(names.size()),
                                     fmt::format("{} {} texts in {} classes from {}", texts.size(),
                                                 kPartNames[part], names.size(), folder.string()));
  for (const LabelledText& text : texts) {
    const auto place = std::lower_bound(names.begin(), names.end(), text.label);
    set->add(text, static_cast<std::int32_t>(place - names.begin()), vocabulary);
  }
  data.identity += identity_of(part, texts);
  return set;
}

LabelledTexts read(const DataSource& source) {
  require(!source.place.folder().empty(),
          "data set texts needs your texts. Pass --data DIR or --data FILE. {}", kLayout);
  return read_labelled_texts(source);
}

OpenedData open(const DataSource& source) {
  constexpr std::size_t kMostClasses = 10000;
  const std::string folder = one_line(source.place.folder().string());
  LabelledTexts all = read(source);
  auto& [train, validation, test] = all.parts;
  require(!train.empty(), "{} contains no training texts. {}", folder, kLayout);
  const Split& split = source.validation;
  if (split.any() && !validation.empty())
    fail_usage("{} has a validation part, and {} makes another one. Omit it.", folder,
               split.text());
  if (!split.any() && validation.empty() && test.empty()) {
    fail_usage("{} has neither a test nor a validation part. Pass --validation 0.1 to divide it.",
               folder);
  }
  if (split.any()) divide(split, all);
  require(!split.any() || (!train.empty() && !validation.empty()),
          "{} leaves {} training and {} validation texts of {}. Pass another part.", split.text(),
          train.size(), validation.size(), folder);
  OpenedData data;
  data.class_names = classes_of(train);
  require(data.class_names.size() > 1,
          "{} contains training texts of one class, {}, and at least 2 are needed. {}", folder,
          data.class_names[0], kLayout);
  require(data.class_names.size() <= kMostClasses,
          "{} contains {} classes, and at most {} are allowed. Check the column of the classes.",
          folder, data.class_names.size(), kMostClasses);
  std::vector<std::string_view> texts;
  for (const LabelledText& text : train) texts.emplace_back(text.text);
  const auto vocabulary = Vocabulary::of(texts, static_cast<std::size_t>(source.texts.words));
  require(!vocabulary.words().empty(), "the training texts of {} contain no words. Check them.",
          folder);
  const std::int64_t length = source.texts.length;
  data.vocabulary = vocabulary.text();
  data.train = set_of(all, kTrain, length, vocabulary, source.place.folder(), data);
  data.validation = set_of(all, kValidation, length, vocabulary, source.place.folder(), data);
  data.test = set_of(all, kTest, length, vocabulary, source.place.folder(), data);
  data.identity += fmt::format("classes = {}\n", fmt::join(data.class_names, ", "));
  data.notes = std::move(all.notes);
  return data;
}

/// The part of `all` that shows how good a run is: the test part, else the validation part, else
/// the texts that the run of this folder kept from training, else all. A note tells of the last
/// two.
SetPart choose_part(const DataSource& source, const DataOfCheckpoint& trained, LabelledTexts& all) {
  auto& [train, validation, test] = all.parts;
  const std::string folder = one_line(source.place.folder().string());
  if (!test.empty()) return kTest;
  if (!validation.empty()) return kValidation;
  const std::size_t count = train.size();
  if (source.validation.any()) {
    LabelledTexts divided = all;
    divide(source.validation, divided);
    const bool own = std::ranges::all_of(std::array{kTrain, kValidation}, [&](SetPart part) {
      return trained.identity.find(identity_of(part, divided.parts[part])) != std::string::npos;
    });
    if (own) all = std::move(divided);
    all.notes.push_back(fmt::format(
        "{} of {} texts in {} are evaluated: {}", own ? validation.size() : count, count, folder,
        own ? "those that the run kept from training"
            : "they are not those of the run, but may contain texts that it trained on"));
    if (own) return kValidation;
  }
  require(!all.has_train, "{} has a training part, but neither a test nor a validation part. {}",
          folder, kLayout);
  std::swap(train, test);
  return kTest;
}

OpenedData open_test(const DataSource& source, const DataOfCheckpoint& trained) {
  LabelledTexts all = read(source);
  const SetPart part = choose_part(source, trained, all);
  OpenedData data;
  data.class_names = trained.class_names;
  data.vocabulary = trained.vocabulary;
  data.test = set_of(all, part, format_from(trained.format).size.width,
                     Vocabulary::from(trained.vocabulary), source.place.folder(), data);
  require(data.test != nullptr, "{} contains no texts. {}",
          one_line(source.place.folder().string()), kLayout);
  data.notes = std::move(all.notes);
  return data;
}

}  // namespace

DatasetEntry texts() {
  return {.name = "texts",
          .about =
              "your own texts: DIR/train/CLASS and DIR/test/CLASS with .txt files, or one CSV file",
          .files = "train/CLASS and test/CLASS of text files, or CSV file",
          .model = "text_cnn",
          .steps = 10000,
          .open = open,
          .own = true,
          .open_test = open_test,
          .texts = true};
}

}  // namespace lockstep
