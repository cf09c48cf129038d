#include "src/data/rows/labelled_rows.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/base/plural.h"
#include "src/base/text.h"
#include "src/data/csv.h"
#include "src/data/text/text_file.h"
#include "src/data/text/words.h"

namespace lockstep {
namespace {

using Names = std::span<const std::string_view>;
using Fields = std::vector<std::string>;
using Json = nlohmann::json;  // ordered_json needs a time of the keys squared
constexpr std::string_view kLabelNames[] = {"label", "category",  "class",
                                            "topic", "sentiment", "target"},
                           kPartColumns[] = {"part", "split"}, kNoClass[] = {"", "index"};

constexpr std::size_t kLongestLabel = 1000;

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
}

/// The column of the first of `names` in the header; -1: there is none.
std::ptrdiff_t column_of(const Fields& header, Names names) {
  for (const std::string_view name : names) {
    const auto found = std::ranges::find_if(
        header, [&](const std::string& field) { return lower_case(trimmed(field)) == name; });
    if (found != header.end()) return found - header.begin();
  }
  return -1;
}

/// The places of the columns in a row; -1: there is none.
struct Columns {
  std::ptrdiff_t content, label, part;

  /// `guesses`: the table has names for all its rows, and must have the columns. Then one unknown
  /// column beside a known one is the other. Otherwise captions would become classes.
  Columns(const Fields& header, const ContentColumn& column, bool guesses)
      : content(column_of(header, column.names)),
        label(column_of(header, kLabelNames)),
        part(column_of(header, kPartColumns)) {
    if (guesses && !column.labelled && header.size() == 1) content = 0;
    if (!guesses || !column.labelled || header.size() != 2 || part >= 0) return;
    const std::ptrdiff_t other = 1 - std::max(content, label);  // of a column that is known
    for (const Names of_other_kinds : {Names(kTextNames), Names(kFileNames), Names(kNoClass)})
      if (other > 1 || column_of({header[other]}, of_other_kinds) >= 0) return;
    if (content < 0) content = other;
    if (label < 0) label = other;
  }
  bool complete() const { return content >= 0 && label >= 0; }
};

/// Throws Error unless `header`, in line `line` of `path`, has the columns.
Columns required_columns(const std::string& path, const Fields& header, std::int64_t line,
                         const ContentColumn& content, bool guesses) {
  const Columns columns(header, content, guesses);
  const auto check = [&](std::ptrdiff_t column, const char* what, Names names) {
    require(column >= 0,
            "{} has no column with the {}. Line {} names {}. Name a column {}. A "
            "table without names needs a first line with them.",
            path, what, line, excerpt_of(fmt::format("{}", fmt::join(header, ", ")), 100),
            fmt::join(names, ", "));
  };
  check(columns.content, content.what, content.names);
  if (content.labelled) check(columns.label, "class", kLabelNames);
  return columns;
}

LabelledRow row_of(const std::string& path, const Columns& columns, Fields& fields,
                   std::int64_t line, bool labelled) {
  LabelledRow row{std::move(fields[columns.content]), {}, {}, line};
  if (!labelled) return row;
  row.label = trimmed(fields[columns.label]);
  require(
      !row.label.empty(),
      "{}: the row in line {} has no class, a text or a whole number. Add one, or remove the row.",
      path, line);
  require(one_line(row.label) == row.label,
          "{}: the class in line {} contains a line end or another control character. Rename it.",
          path, line);
  require(row.label.size() <= kLongestLabel,
          "{}: the class in line {} has {} bytes. Check the column of the classes.", path, line,
          row.label.size());
  if (columns.part < 0) return row;
  row.part = part_named(trimmed(fields[columns.part]));
  require(row.part.has_value(),
          "{}: the part in line {} is \"{}\". Write train, test or validation.", path, line,
          excerpt_of(fields[columns.part], 30));
  return row;
}

/// The value of a JSON object as the field of a row: a text or a whole number. Others have no
/// field, because a fraction or a number of more than 64 bits is not kept digit by digit.
std::string field_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_number_integer() || value.is_boolean() ? value.dump() : "";
}

bool read_json_lines(const std::string& path, const std::string& content,
                     const ContentColumn& column, bool required,
                     const std::function<void(LabelledRow)>& use) {
  std::int64_t number = 0;
  for (const std::string& line : lines_of(content)) {
    ++number;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    const Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    require(object.is_object(), "{}: line {} is no JSON object. Correct it, or remove it.", path,
            number);
    Fields names, fields;
    for (const auto& [name, value] : object.items()) {
      names.push_back(name);
      fields.push_back(field_of(value));
    }
    // JSON lines have no header. The first object decides whether the file is a table of classes at
    // all.
    if (!required && !Columns(names, column, /*guesses=*/false).complete()) return false;
    required = true;  // of all other lines
    use(row_of(path, required_columns(path, names, number, column, /*guesses=*/false), fields,
               number, column.labelled));
  }
  return required;
}

/// Begins the class in fastText's lines. A text with two classes is refused.
constexpr std::string_view kFastText = "__label__";

void read_fast_text(const std::string& path, const std::string& text, const ContentColumn& column,
                    const std::function<void(LabelledRow)>& use) {
  const Columns columns({std::string(column.names[0]), std::string(kLabelNames[0])}, column, false);
  std::int64_t number = 0;
  for (const std::string& line : lines_of(text)) {
    ++number;
    if (trimmed(line).empty()) continue;
    const std::size_t end = std::min(line.find_first_of(" \t"), line.size());
    Fields fields{trimmed(line.substr(end)), line.substr(0, end)};
    require(fields[1].starts_with(kFastText) && fields[0].find(kFastText) == line.npos,
            "{}: line {} is not {}CLASS and a text. Correct it, or remove it.", path, number,
            kFastText);
    fields[1].erase(0, kFastText.size());
    use(row_of(path, columns, fields, number, column.labelled));
  }
}

}  // namespace

bool is_table(const std::filesystem::path& file) {
  const std::string ending = ending_of(file);
  return ending == ".csv" || ending == ".tsv" || ending == ".jsonl";
}

bool read_labelled_rows(const std::filesystem::path& table, const ContentColumn& content,
                        bool required, const std::function<void(LabelledRow)>& use) {
  const std::string path = one_line(table.string()), text = with_unix_ends(read_text_file(table));
  if (ending_of(table) == ".jsonl") return read_json_lines(path, text, content, required, use);
  if (required && text.starts_with(kFastText)) {
    read_fast_text(path, text, content, use);
    return true;
  }
  CsvRows rows(text, path);
  Fields header, fields;
  const bool empty = !rows.next(header);
  if (!required && (empty || !Columns(header, content, /*guesses=*/false).complete())) return false;
  require(!empty, "{} is empty. Write a line of column names, such as {},label.", path,
          content.names[0]);
  const Columns columns = required_columns(path, header, rows.line(), content, required);
  while (rows.next(fields)) {
    require(fields.size() == header.size(),
            "{}: the row in line {} has {}, and the first line has {}. Put {}s with commas into "
            "quotes.",
            path, rows.line(), counted(std::ssize(fields), "field"), header.size(), content.what);
    use(row_of(path, columns, fields, rows.line(), content.labelled));
  }
  return true;
}

}  // namespace lockstep
