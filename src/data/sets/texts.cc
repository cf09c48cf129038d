// Texts of the user as numbers of words.

#include <algorithm>
#include <utility>

#include "src/base/check.h"
#include "src/base/crc32c.h"
#include "src/base/plural.h"
#include "src/base/text.h"
#include "src/data/copies.h"
#include "src/data/dataset.h"
#include "src/data/normalisation.h"
#include "src/data/rows/class_folders.h"
#include "src/data/rows/labelled_rows.h"
#include "src/data/sets/data_folder.h"
#include "src/data/sets/stored_texts.h"
#include "src/data/text/text_file.h"
#include "src/data/text/words.h"
#include "src/data/validation.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLayout =
    "Pass a folder with train/CLASS/*.txt and test/CLASS/*.txt, or a CSV file with columns text "
    "and "
    "label.";

/// A row for each text, in UTF-8. A table's rows are named by their numbers.
struct LabelledTexts : Rows {
  std::vector<std::string> texts;

  /// The path of a text, or its table and its row: "reviews.csv:1" is the first below the line of
  /// names.
  std::string file(const Row& row) const {
    return sources.empty() ? (fs::path(folders[row.part]) / row.name).string()
                           : fmt::format("{}:{}", sources[row.source], row.line);
  }
  /// Calls f(row, text) for all texts of a part.
  void each(SetPart part, const auto& f) const {
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (rows[i].part == part) f(rows[i], texts[i]);
  }
};

/// Texts with what reports show of them.
class Texts : public StoredTexts {
 public:
  using StoredTexts::StoredTexts;
  void add(const std::string& text, std::string file, std::int32_t label,
           const Vocabulary& vocabulary) {
    constexpr std::int64_t kExcerpt = 200;  // characters
    const auto numbers = vocabulary.numbers(text, format().size.width);
    const auto first = std::ranges::find_if(
        numbers, [](std::int32_t word) { return word != Vocabulary::kPadding; });
    StoredTexts::add({first, numbers.end()}, label);
    files_.push_back(std::move(file));
    fingerprints_.push_back(fingerprint_of(text));
    excerpts_.push_back(excerpt_of(text, kExcerpt));
  }
  std::string file(std::int64_t index) const override { return files_[index]; }
  std::string excerpt(std::int64_t index) const override { return excerpts_[index]; }
  std::uint64_t fingerprint(std::int64_t index) const override { return fingerprints_[index]; }
  std::size_t bytes() const override {
    std::size_t sum = StoredTexts::bytes() + fingerprints_.size() * sizeof(std::uint64_t);
    for (const auto* list : {&files_, &excerpts_})
      for (const std::string& text : *list) sum += sizeof text + text.size();
    return sum;
  }

 private:
  std::vector<std::string> files_, excerpts_;
  std::vector<std::uint64_t> fingerprints_;
};

/// Appends the rows of a table. Those without a part of their own belong to `part`.
void read_table(const fs::path& file, SetPart part, LabelledTexts& all) {
  std::int64_t number = 0;
  const auto add = [&](LabelledRow row) {
    all.has_train |= row.part == kTrain;
    all.rows.push_back({.name = std::to_string(number),
                        .label = std::move(row.label),
                        .line = number + 1,
                        .source = static_cast<int>(all.sources.size()),
                        .part = row.part.value_or(part)});
    all.texts.push_back(std::move(row.content));
    ++number;
  };
  read_labelled_rows(file, {"text", kTextNames}, /*required=*/true, add);
  all.sources.push_back(file.filename().string());
}

/// The train.csv, test.csv and so on in a folder.
bool read_csv_parts(const fs::path& folder, LabelledTexts& all) {
  std::error_code error;
  for (const std::string& name : names_in(folder, error)) {
    const auto part = part_named(fs::path(name).stem().string());
    if (!is_table(name) || !part) continue;
    all.has_train |= *part == kTrain;
    read_table(folder / name, *part, all);
  }
  return !all.sources.empty();
}

/// The text files of class folders.
void read_folders(const DataSource& source, LabelledTexts& all) {
  const Folders root = parts_in(source.place.folder());
  all.has_train = !root.parts[kTrain].empty();
  for (const SetPart part : {kTrain, kValidation, kTest})
    if (!root.parts[part].empty())
      add_classes(folders_in(root.parts[part]), part, source, has_text_name, all);
  if (!all.has_train) {
    root.refuse_parts();
    add_classes(root, kTrain, source, has_text_name, all);
  } else if (!root.classes.empty()) {
    all.notes.push_back("these folders are not used: " + one_line(listed(root.classes)));
  }
  if (all.others > 0)
    all.notes.push_back(counted(all.others, "file") +
                        " left out, because the name does not end in .txt");
  for (const Row& row : all.rows) {
    all.texts.push_back(read_text_file(all.file(row)));
    source.host.progress();
  }
}

/// The texts of source.place.folder(). A file is a table with a line of column names. A folder
/// contains train.csv and test.csv, or train/CLASS and test/CLASS with text files, or CLASS with
/// text files.
LabelledTexts read(const DataSource& source) {
  const fs::path place = source.place.folder();
  require(!place.empty(), "data set texts needs your texts. Pass --data DIR or --data FILE. {}",
          kLayout);
  LabelledTexts all;
  std::error_code unreadable;
  if (!fs::is_directory(place, unreadable)) {
    read_table(place, kTrain, all);
  } else if (!read_csv_parts(place, all)) {
    read_folders(source, all);
  }
  return all;
}

std::string identity_of(SetPart part, const LabelledTexts& all) {
  std::uint32_t checksum = 0;
  all.each(part, [&](const Row& row, const std::string& text) {
    checksum = crc32c(row.label + '\n', crc32c(text + '\n', checksum));
  });
  return fmt::format("{} texts = {}, crc32c of texts and classes {:08x}\n", kPartNames[part],
                     all.count(part), checksum);
}

/// The set of one part; null: it has no texts. `data` gains its line of identity.
std::unique_ptr<Dataset> set_of(const LabelledTexts& all, SetPart part, std::int64_t length,
                                const Vocabulary& vocabulary, const fs::path& folder,
                                OpenedData& data) {
  if (all.count(part) == 0) return nullptr;
  const std::vector<std::string>& names = data.class_names;
  require_known_classes(folder.string(), classes_of(all.rows, part), names, "the training set");
  auto set =
      std::make_unique<Texts>(length, names.size(),
                              fmt::format("{} {} texts in {} classes from {}", all.count(part),
                                          kPartNames[part], names.size(), folder.string()));
  all.each(part, [&](const Row& row, const std::string& text) {
    const auto place = std::ranges::find(names, row.label);
    set->add(text, all.file(row), place - names.begin(), vocabulary);
  });
  data.identity += identity_of(part, all);
  return set;
}

OpenedData open(const DataSource& source) {
  constexpr std::size_t kMostClasses = 10000;
  const std::string folder = one_line(source.place.folder().string());
  LabelledTexts all = read(source);
  const Split& split = source.validation;
  require(all.count(kTrain) > 0, "{} contains no training texts. {}", folder, kLayout);
  if (split.any() && all.count(kValidation) > 0)
    fail_usage("{} has a validation part, and {} makes another one. Omit it.", folder,
               split.text());
  if (!split.any() && all.count(kValidation) + all.count(kTest) == 0) {
    fail_usage("{} has neither a test nor a validation part. Pass --validation 0.1 to divide it.",
               folder);
  }
  // The split comes before the vocabulary. Words of validation texts must not become numbers that
  // training knows.
  if (split.any()) divide(split, all);
  require(!split.any() || (all.count(kTrain) > 0 && all.count(kValidation) > 0),
          "{} leaves {} training and {} validation texts of {}. Pass another part.", split.text(),
          all.count(kTrain), all.count(kValidation), folder);
  OpenedData data;
  data.class_names = classes_of(all.rows, kTrain);
  require(data.class_names.size() > 1,
          "{} contains training texts of one class, {}, and at least 2 are needed. {}", folder,
          data.class_names[0], kLayout);
  require(data.class_names.size() <= kMostClasses,
          "{} contains {} classes, and at most {} are allowed. Check the column of the classes.",
          folder, data.class_names.size(), kMostClasses);
  std::vector<std::string_view> texts;
  all.each(kTrain, [&](const Row&, const std::string& text) { texts.emplace_back(text); });
  const auto vocabulary = Vocabulary::of(texts, source.texts.words);
  require(!vocabulary.words().empty(), "the training texts of {} contain no words. Check them.",
          folder);
  data.vocabulary = vocabulary.text();
  const auto open_part = [&](SetPart part) {
    return set_of(all, part, source.texts.length, vocabulary, source.place.folder(), data);
  };
  data.train = open_part(kTrain);
  data.validation = open_part(kValidation);
  data.test = open_part(kTest);
  data.identity += fmt::format("classes = {}\n", fmt::join(data.class_names, ", "));
  data.notes = std::move(all.notes);
  return data;
}

/// Opens the part that shows how good a run is: the test part, else the validation part, else the
/// texts that the run of this folder kept from training, else all.
OpenedData open_test(const DataSource& source, const DataOfCheckpoint& trained) {
  LabelledTexts all = read(source);
  const std::string folder = one_line(source.place.folder().string());
  SetPart part = all.count(kTest) > 0 ? kTest : kValidation;
  if (all.count(part) == 0) {
    const auto identity = [&](const Rows& divided) {
      const LabelledTexts texts{divided, all.texts};
      return std::vector{identity_of(kTrain, texts), identity_of(kValidation, texts)};
    };
    const std::string training =
        all.has_train ? fmt::format(
                            "{} has a training part, but neither a test nor a validation "
                            "part. {}",
                            folder, kLayout)
                      : "";
    part = take_held_out(source, trained, identity, "texts", training, all);
  }
  OpenedData data;
  data.class_names = trained.class_names;
  data.vocabulary = trained.vocabulary;
  data.test = set_of(all, part, format_from(trained.format).size.width,
                     Vocabulary::from(trained.vocabulary), source.place.folder(), data);
  require(data.test != nullptr, "{} contains no texts. {}", folder, kLayout);
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
