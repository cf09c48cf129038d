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
                           kPartColumns[] = {"part", "split"};

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

  Columns(const Fields& header, const ContentColumn& column)
      : content(column_of(header, column.names)),
        label(column_of(header, kLabelNames)),
        part(column_of(header, kPartColumns)) {}
  bool complete() const { return content >= 0 && label >= 0; }
};

/// Throws Error unless `header`, in line `line` of `path`, has the columns.
Columns required_columns(const std::string& path, const Fields& header, std::int64_t line,
                         const ContentColumn& content) {
  const Columns columns(header, content);
  const auto check = [&](std::ptrdiff_t column, const char* what, Names names) {
    require(column >= 0, "{} has no column with the {}. Line {} names {}. Name a column {}.", path,
            what, line, excerpt_of(fmt::format("{}", fmt::join(header, ", ")), 100),
            fmt::join(names, ", "));
  };
  check(columns.content, content.what, content.names);
  check(columns.label, "class", kLabelNames);
  return columns;
}

LabelledRow row_of(const std::string& path, const Columns& columns, Fields& fields,
                   std::int64_t line) {
  LabelledRow row{std::move(fields[columns.content]), trimmed(fields[columns.label]), {}, line};
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
    if (!required && !Columns(names, column).complete()) return false;
    required = true;  // of all other lines
    use(row_of(path, required_columns(path, names, number, column), fields, number));
  }
  return required;
}

}  // namespace

bool read_labelled_rows(const std::filesystem::path& table, const ContentColumn& content,
                        bool required, const std::function<void(LabelledRow)>& use) {
  const std::string path = one_line(table.string()), text = with_unix_ends(read_text_file(table));
  if (ending_of(table) == ".jsonl") return read_json_lines(path, text, content, required, use);
  CsvRows rows(text, path);
  Fields header, fields;
  const bool empty = !rows.next(header);
  if (!required && (empty || !Columns(header, content).complete())) return false;
  require(!empty, "{} is empty. Write a line of column names, such as {},label.", path,
          content.names[0]);
  const Columns columns = required_columns(path, header, rows.line(), content);
  while (rows.next(fields)) {
    require(fields.size() == header.size(),
            "{}: the row in line {} has {}, and the first line has {}. Put {}s with commas into "
            "quotes.",
            path, rows.line(), counted(std::ssize(fields), "field"), header.size(), content.what);
    use(row_of(path, columns, fields, rows.line()));
  }
  return true;
}

}  // namespace lockstep
