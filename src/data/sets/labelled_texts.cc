#include "src/data/sets/labelled_texts.h"

#include <utility>

#include "src/base/check.h"
#include "src/base/plural.h"
#include "src/base/text.h"
#include "src/data/image/class_folders.h"
#include "src/data/sets/data_folder.h"
#include "src/data/text/labelled_rows.h"
#include "src/data/text/text_file.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTextNames[] = {"text",     "content", "review",
                                           "sentence", "message", "body"};

/// Appends the rows of a table. Those without a part of their own belong to `part`.
void read_table(const fs::path& file, SetPart part, LabelledTexts& all) {
  std::int64_t number = 0;
  const std::string name = file.filename().string();
  const auto add = [&](LabelledRow row) {
    all.has_train |= row.part == kTrain;
    all.parts[row.part.value_or(part)].push_back({std::move(row.content), std::move(row.label),
                                                  std::to_string(number),
                                                  fmt::format("{}:{}", name, number + 1)});
    ++number;
  };
  read_labelled_rows(file, {"text", kTextNames}, /*required=*/true, add);
}

/// The train.csv, test.csv and so on in a folder.
bool read_csv_parts(const fs::path& folder, LabelledTexts& all) {
  std::error_code error;
  bool found = false;
  for (const std::string& name : names_in(folder, error)) {
    const std::string ending = ending_of(name);
    const auto part = part_named(fs::path(name).stem().string());
    if ((ending != ".csv" && ending != ".tsv" && ending != ".jsonl") || !part) continue;
    all.has_train |= *part == kTrain;
    read_table(folder / name, *part, all);
    found = true;
  }
  return found;
}

/// Appends the text files of the classes of `folder` to `part`.
void read_classes(const Folders& folder, SetPart part, const std::function<void()>& progress,
                  LabelledTexts& all, std::int64_t& others) {
  for (const std::string& name : folder.classes) {
    for (const FoundFile& file : files_of_class(folder.path / name)) {
      const fs::path path = folder.path / name / file.name;
      if (!has_text_name(file.name)) {
        ++others;
        continue;
      }
      all.parts[part].push_back(
          {read_text_file(path), name, name + "/" + file.name, path.string()});
      progress();
    }
  }
}

}  // namespace

LabelledTexts read_labelled_texts(const DataSource& source) {
  const fs::path& place = source.place.folder();
  const std::function<void()>& progress = source.host.progress;
  LabelledTexts all;
  std::error_code unreadable;
  if (!fs::is_directory(place, unreadable)) {
    read_table(place, kTrain, all);
    return all;
  }
  if (read_csv_parts(place, all)) return all;
  const Folders root = parts_in(place);
  std::int64_t others = 0;
  all.has_train = !root.parts[kTrain].empty();
  for (std::size_t part = 0; part < kParts; ++part) {
    if (root.parts[part].empty()) continue;
    read_classes(folders_in(root.parts[part]), static_cast<SetPart>(part), progress, all, others);
  }
  if (!all.has_train) root.refuse_parts();
  if (!all.has_train) read_classes(root, kTrain, progress, all, others);
  if (all.has_train && !root.classes.empty())
    all.notes.push_back("these folders are not used: " + one_line(listed(root.classes)));
  if (others > 0)
    all.notes.push_back(counted(others, "file") +
                        " left out, because the name does not end in .txt");
  return all;
}

}  // namespace lockstep
