// Rows of a CSV file (RFC 4180): fields in quotes may contain separators, line ends, and quotes
// twice. The separator is the first comma, semicolon or tab of the first line. Lines end with LF or
// CR LF. Empty lines are skipped. Between tabs a quote that ends within its field is text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

class CsvRows {
 public:
  /// `text` in UTF-8, which the caller keeps alive. `name`: of the file, for errors.
  CsvRows(std::string_view text, std::string name);

  /// Sets `fields` to the next row. False: there is none. Throws Error that names the line of
  /// quotes that do not end, or that end within a field.
  bool next(std::vector<std::string>& fields);
  /// The line on which the last row begins, from 1.
  std::int64_t line() const { return row_line_; }

 private:
  /// Whether the quote of a field with tabs around it ends within the field, so it is text.
  bool is_loose() const;
  std::string quoted_field();
  bool at_line_end() const;
  char current() const { return at_ < text_.size() ? text_[at_] : '\n'; }

  std::string_view text_;
  std::string name_;
  char separator_ = ',';
  std::size_t at_ = 0;
  std::int64_t line_ = 1, row_line_ = 1;
};

}  // namespace lockstep
