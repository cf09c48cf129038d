#include "src/data/sets/labelled_texts.h"

#include <algorithm>
#include <span>

#include "src/base/check.h"
#include "src/base/plural.h"
#include "src/base/text.h"
#include "src/data/image/class_folders.h"
#include "src/data/sets/data_folder.h"
#include "src/data/text/csv.h"
#include "src/data/text/text_file.h"
#include "src/data/text/words.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

using Names = std::span<const std::string_view>;
constexpr std::string_view kTextNames[] = {"text",     "content", "review",
                                           "sentence", "message", "body"},
                           kLabelNames[] = {"label", "category",  "class",
                                            "topic", "sentiment", "target"},
                           kPartColumns[] = {"part", "split"};

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
}

/// The column of the first of `names` in the header; -1: there is none.
std::ptrdiff_t column_of(const std::vector<std::string>& header, Names names) {
  for (const std::string_view name : names) {
    const auto found = std::find_if(header.begin(), header.end(), [&](const std::string& field) {
      return lower_case(trimmed(field)) == name;
    });
    if (found != header.end()) return found - header.begin();
  }
  return -1;
}

/// Appends the rows of a CSV file. Those without a part of their own belong to `part`.
void read_csv(const fs::path& file, SetPart part, LabelledTexts& all) {
  const std::string path = one_line(file.string()), content = read_text_file(file);
  CsvRows rows(content, path);
  std::vector<std::string> header, row;
  require(rows.next(header), "{} is empty. Write a line of column names, such as text,label.",
          path);
  const auto required = [&](const char* what, Names names) {
    const std::ptrdiff_t column = column_of(header, names);
    require(column >= 0, "{} has no column with the {}. Its first line is {}. Name a column {}.",
            path, what, excerpt_of(fmt::format("{}", fmt::join(header, ", ")), 100),
            fmt::join(names, ", "));
    return column;
  };
  const std::ptrdiff_t text = required("text", kTextNames), label = required("class", kLabelNames),
                       parts = column_of(header, kPartColumns);
  std::int64_t number = 0;
  while (rows.next(row)) {
    require(row.size() == header.size(),
            "{}: the row in line {} has {}, and the first line has {}. Put texts with commas into "
            "quotes.",
            path, rows.line(), counted(std::ssize(row), "field"), header.size());
    const std::string name = trimmed(row[label]);
    require(!name.empty(), "{}: the row in line {} has no class. Add one, or remove the row.", path,
            rows.line());
    require(one_line(name) == name, "{}: the class in line {} contains a line end. Rename it.",
            path, rows.line());
    SetPart own = part;
    if (parts >= 0) {
      const auto named = part_named(trimmed(row[parts]));
      require(named.has_value(),
              "{}: the part in line {} is \"{}\". Write train, test or validation.", path,
              rows.line(), excerpt_of(row[parts], 30));
      own = *named;
      all.has_train |= own == kTrain;
    }
    all.parts[own].push_back({row[text], name, std::to_string(number++), ""});
  }
}

/// The train.csv, test.csv and so on in a folder.
bool read_csv_parts(const fs::path& folder, LabelledTexts& all) {
  std::error_code error;
  bool found = false;
  for (const std::string& name : names_in(folder, error)) {
    const std::string ending = ending_of(name);
    const auto part = part_named(fs::path(name).stem().string());
    if ((ending != ".csv" && ending != ".tsv") || !part) continue;
    all.has_train |= *part == kTrain;
    read_csv(folder / name, *part, all);
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

LabelledTexts read_labelled_texts(const fs::path& source, const std::function<void()>& progress) {
  LabelledTexts all;
  std::error_code unreadable;
  if (!fs::is_directory(source, unreadable)) {
    read_csv(source, kTrain, all);
    return all;
  }
  if (read_csv_parts(source, all)) return all;
  const Folders root = folders_in(source);
  std::int64_t others = 0;
  all.has_train = !root.parts[kTrain].empty();
  for (std::size_t part = 0; part < kParts; ++part) {
    if (root.parts[part].empty()) continue;
    read_classes(folders_in(root.parts[part]), static_cast<SetPart>(part), progress, all, others);
  }
  if (!all.has_train) read_classes(root, kTrain, progress, all, others);
  if (all.has_train && !root.classes.empty())
    all.notes.push_back("these folders are not used: " + one_line(listed(root.classes)));
  if (others > 0)
    all.notes.push_back(counted(others, "file") +
                        " left out, because the name does not end in .txt");
  return all;
}

}  // namespace lockstep
