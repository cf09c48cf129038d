// Tables of the user that give the class of each text or file: CSV with a line of column names, or
// JSON lines (.jsonl), one object on each line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "src/data/names.h"

namespace lockstep {

struct LabelledRow {
  std::string content;          ///< the text, or the name of the file
  std::string label;            ///< without spaces at its ends; not empty if rows need a class
  std::optional<SetPart> part;  ///< empty: the table has no column of parts
  std::int64_t line = 0;        ///< on which the row begins, from 1
};

/// The column of LabelledRow::content.
struct ContentColumn {
  const char* what;                         ///< for errors: "text"
  std::span<const std::string_view> names;  ///< in small letters; the first in the table counts
  bool labelled = true;                     ///< each row needs a class
};
inline constexpr std::string_view kTextNames[] = {"text",     "content", "review",
                                                  "sentence", "message", "body"},
                                  kFileNames[] = {"file", "file_name", "filename", "filepath",
                                                  "path", "image",     "image_id", "id"};
inline constexpr std::size_t kFileNumbers = 2;  ///< the last ones, which may also number rows

/// Whether a file is a table by its name: .csv, .tsv or .jsonl.
bool is_table(const std::filesystem::path& file);

/// Calls `use` for each row of `table`, which may also have fastText's lines ("__label__CLASS
/// TEXT"). In CSV a column beside a known one is the other, if its name is of no other kind, and
/// the only column is the content if rows need no class. False: `required` is not set, and the
/// table has no columns of the content and the class. Throws Error that names the file, the line
/// and the fix.
bool read_labelled_rows(const std::filesystem::path& table, const ContentColumn& content,
                        bool required, const std::function<void(LabelledRow)>& use);

}  // namespace lockstep
