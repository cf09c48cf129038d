#include "src/data/csv.h"

#include "src/base/check.h"

namespace lockstep {

CsvRows::CsvRows(std::string_view text, std::string name) : text_(text), name_(std::move(name)) {
  bool quoted = false;
  for (const char c : text) {
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '\n') break;
    if (c != ',' && c != ';' && c != '\t') continue;
    separator_ = c;
    break;
  }
}

bool CsvRows::at_line_end() const {
  return current() == '\n' ||
         (current() == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n');
}

bool CsvRows::next(std::vector<std::string>& fields) {
  const auto end_line = [&] {
    at_ += current() == '\r' ? 2 : 1;
    ++line_;
  };
  while (at_ < text_.size() && at_line_end()) end_line();
  fields.clear();
  if (at_ >= text_.size()) return false;
  row_line_ = line_;
  for (;;) {
    std::string field;
    if (current() == '"' && !is_loose()) {
      field = quoted_field();
    } else {
      const std::size_t begin = at_;
      while (!at_line_end() && current() != separator_) ++at_;
      field = text_.substr(begin, at_ - begin);
    }
    fields.push_back(std::move(field));
    if (at_line_end()) break;
    ++at_;
  }
  end_line();
  return true;
}

bool CsvRows::is_loose() const {
  if (separator_ != '\t') return false;
  for (std::size_t end = at_ + 1; (end = text_.find('"', end)) != text_.npos; end += 2) {
    const char next = end + 1 < text_.size() ? text_[end + 1] : '\n';
    if (next != '"') return next != separator_ && next != '\r' && next != '\n';
  }
  return true;
}

std::string CsvRows::quoted_field() {
  const std::int64_t begin = line_;
  std::string field;
  for (++at_;; ++at_) {
    require(at_ < text_.size(), "{}: the quote in line {} has no end. Add it, or double the quote.",
            name_, begin);
    if (text_[at_] == '\n') ++line_;
    if (text_[at_] == '"') {
      ++at_;
      // Two quotes inside quotes stand for one.
      if (current() != '"' || at_ >= text_.size()) break;
    }
    field += text_[at_];
  }
  require(at_line_end() || current() == separator_,
          "{}: the quotes in line {} end within a field. Double each quote inside quotes.", name_,
          line_);
  return field;
}

}  // namespace lockstep
