#include "src/data/rows/image_rows.h"

#include <filesystem>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "src/base/check.h"
#include "src/base/plural.h"
#include "src/base/text.h"
#include "src/data/read_in_parallel.h"
#include "src/data/rows/class_folders.h"
#include "src/data/rows/labelled_rows.h"
#include "src/data/text/words.h"

namespace lockstep {
namespace {

// A table goes through four steps: read its rows, merge repeated ones, find the files, and arrange
// the rows. After the last one they look like rows of class folders. So the same images give the
// same identity, whether a table or folders name their classes.
namespace fs = std::filesystem;

constexpr const char* kMetadata[] = {"metadata.csv", "metadata.jsonl"};
constexpr std::uint64_t kMissing = UINT64_MAX;  ///< the size of a file that does not exist

std::string shown(const Row& row) { return excerpt_of(one_line(row.name), 300); }

std::string place_of(const Rows& all, const Row& row) {
  return fmt::format("{}, line {}", all.sources[row.source], row.line);
}

/// `file` of a table in `folder`, which `root` is or contains, relative to `root`. An absolute path
/// elsewhere stays as it is. `real_root`: `root` without links.
std::string name_in(const fs::path& root, const fs::path& real_root, const fs::path& folder,
                    const std::string& file) {
  const fs::path path = (folder / file).lexically_normal();
  if (!fs::path(file).is_absolute()) return path.lexically_relative(root.lexically_normal());
  std::error_code missing;  // links to the folder are the same folder
  // Only the folder is resolved. The file may be a link too, and its own name is the one in the
  // table.
  const fs::path real = fs::weakly_canonical(path.parent_path(), missing) / path.filename();
  const std::string name = real.lexically_relative(real_root).string();
  return name.empty() || name.starts_with("..") ? path.string() : name;
}

/// The first folder in the name of a file; empty: there is none.
std::string first_folder(const std::string& name) {
  const std::size_t end = name.find('/');
  return end == name.npos ? "" : name.substr(0, end);
}

/// Appends the rows of a table, whose names are relative to `folder`, which `root` is or contains.
/// `part`: of rows that name none and whose folder is none; empty: they are for training. False: it
/// has no columns of files and classes, and is not `required` to have them.
bool add_rows(const fs::path& root, const fs::path& table, const fs::path& folder, bool required,
              std::optional<SetPart> part, Rows& all) {
  const std::string path = one_line(table.string());
  std::error_code missing;
  const fs::path real_root = fs::weakly_canonical(root, missing);
  const auto add = [&](LabelledRow row) {
    require(!row.content.empty() && row.content.find('\0') == row.content.npos,
            "{}: the row in line {} names no file. Add it, or remove the row.", path, row.line);
    std::string name = name_in(root, real_root, folder, row.content);
    if (!row.part) row.part = part_named(first_folder(name));
    if (!row.part) row.part = part;
    all.has_train |= row.part == kTrain;
    all.rows.push_back({std::move(name), std::move(row.label), kMissing, row.line,
                        static_cast<int>(all.sources.size()), row.part.value_or(kTrain)});
  };
  // Metadata may number its rows.
  const std::span<const std::string_view> names = kFileNames;
  const ContentColumn column{"file", required ? names : names.first(names.size() - kFileNumbers)};
  if (!read_labelled_rows(table, column, required, add)) return false;
  all.sources.push_back(path);
  return true;
}

/// Appends the rows of the metadata in `folder`. False: there is none.
bool add_metadata(const fs::path& root, const fs::path& folder, std::optional<SetPart> part,
                  Rows& all) {
  std::error_code unreadable;
  return std::ranges::any_of(kMetadata, [&](const char* name) {
    return fs::is_regular_file(folder / name, unreadable) &&
           add_rows(root, folder / name, folder, /*required=*/false, part, all);
  });
}

/// Appends the rows of the metadata in `outer`, else in its folders. These count only if each of
/// them has some and none is a data set of its own: a single file may describe one class. False:
/// there is none.
bool add_metadata_within(const fs::path& root, const Folders& outer, std::optional<SetPart> part,
                         Rows& all) {
  if (add_metadata(root, outer.path, part, all)) return true;
  std::error_code unreadable;
  const auto is_batch = [&](const std::string& name) {
    const fs::path folder = outer.path / name;
    return std::ranges::any_of(
               kMetadata,
               [&](const char* file) { return fs::is_regular_file(folder / file, unreadable); }) &&
           std::ranges::all_of(folders_in(folder).parts, &fs::path::empty);
  };
  if (outer.classes.empty() || !std::ranges::all_of(outer.classes, is_batch)) return false;
  for (const std::string& name : outer.classes) add_metadata(root, outer.path / name, part, all);
  return !all.rows.empty();
}

/// The rows of `labels`, else of the metadata in `root`, else in its parts.
Rows read_tables(const fs::path& root, const std::string& labels) {
  Rows all;
  if (!labels.empty()) {
    add_rows(root, labels, root, /*required=*/true, {}, all);
    require(!all.rows.empty(), "{} names no images. Add a row for each.", all.sources[0]);
    return all;
  }
  const Folders found = parts_in(root);
  if (add_metadata_within(root, found, {}, all)) return all;
  for (const SetPart part : {kTrain, kValidation, kTest})
    if (!found.parts[part].empty())
      add_metadata_within(root, folders_in(found.parts[part]), part, all);
  return all;
}

/// Leaves one row for each file. Returns the number of the others. Throws Error if rows contradict
/// each other.
std::int64_t merge(Rows& all) {
  std::vector<Row>& rows = all.rows;
  std::ranges::sort(rows, {},
                    [](const Row& row) { return std::tie(row.name, row.source, row.line); });
  // Rows with one file are neighbours now. Two classes of one file would make the result depend on
  // their order, so they are an error.
  const auto end = std::unique(rows.begin(), rows.end(), [&](const Row& a, const Row& b) {
    if (a.name != b.name) return false;
    const auto check = [&](const char* what, const auto& first, const auto& second) {
      require(first == second, "{} and {} name two {} of {}: {} and {}. Remove one of the rows.",
              place_of(all, a), b.source == a.source ? fmt::format("{}", b.line) : place_of(all, b),
              what, shown(a), first, second);
    };
    check("classes", a.label, b.label);
    check("parts", std::string(kPartNames[a.part]), std::string(kPartNames[b.part]));
    return true;
  });
  const std::int64_t repeated = rows.end() - end;
  rows.erase(end, rows.end());
  return repeated;
}

/// Sets the sizes of the files. Throws Error if some do not exist. Returns the number of images in
/// the folder that no row names.
std::int64_t find_files(const DataSource& source, Rows& all) {
  // One walk through the folder finds the sizes of nearly all files, and the images that no row
  // names. Files elsewhere need a look of their own.
  std::unordered_map<std::string, std::uint64_t> found;
  std::unordered_map<std::string, std::string> by_stem;  // rows may lack the ".jpg"
  for (const FoundFile& file : files_of_class(source.place.folder())) {
    found.emplace(file.name, file.bytes);
    if (!has_image_name(file.name)) continue;
    const auto [same, fresh] = by_stem.emplace(fs::path(file.name).replace_extension(), file.name);
    if (!fresh) same->second = same->first;  // the row must have the ending
  }
  std::vector<Row>& rows = all.rows;
  for (Row& row : rows)
    if (const auto file = by_stem.find(row.name); file != by_stem.end() && !found.count(row.name))
      row.name = file->second;
  read_in_parallel(source.threads, std::ssize(rows), 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::error_code missing;
      const fs::path path = source.place.folder() / rows[i].name;
      if (const auto file = found.find(rows[i].name); file != found.end()) {
        rows[i].bytes = file->second;
      } else if (fs::is_regular_file(path, missing)) {
        rows[i].bytes = fs::file_size(path, missing);
      }
      source.host.progress();
    }
  });
  const auto is_missing = [](const Row& row) { return row.bytes == kMissing; };
  // The first row of the table that lacks its file is the one that a user can find.
  const auto lost = std::ranges::min_element(
      rows, {}, [&](const Row& row) { return std::tuple(!is_missing(row), row.source, row.line); });
  require(!is_missing(*lost),
          "{} of {} image files do not exist: {} ({}) is the first. Names are relative to {}. "
          "Correct the table, or restore the files.",
          std::ranges::count_if(rows, is_missing), rows.size(), shown(*lost), place_of(all, *lost),
          source.place.folder().string());
  for (const Row& row : rows) found.erase(row.name);
  return std::ranges::count_if(found, [](const auto& file) { return has_image_name(file.first); });
}

/// The order of files_of_class(): the files of a folder come before its folders.
bool comes_before(std::string_view one, std::string_view other) {
  const auto same = std::ranges::mismatch(one, other).in1 - one.begin();
  const std::size_t end = one.find('/', same), other_end = other.find('/', same);
  if ((end == one.npos) != (other_end == other.npos)) return end == one.npos;
  return one.substr(0, end) < other.substr(0, other_end);
}

/// Sorts the rows as those of class folders. Names become relative to the own folder of their part
/// if all its images lie there, else to `root`.
void arrange(const fs::path& root, Rows& all) {
  std::ranges::sort(all.rows, [](const Row& a, const Row& b) {
    return a.label != b.label ? a.label < b.label : comes_before(a.name, b.name);
  });
  for (const SetPart part : {kTrain, kValidation, kTest}) {
    std::vector<Row*> rows;
    for (Row& row : all.rows)
      if (row.part == part) rows.push_back(&row);
    all.folders[part].clear();
    if (rows.empty()) continue;
    const std::string own = first_folder(rows[0]->name);
    const bool together = part_named(own) == part && std::ranges::all_of(rows, [&](const Row* row) {
                            return first_folder(row->name) == own;
                          });
    all.folders[part] = (together ? root / own : root).string();
    for (Row* row : rows) row->name.erase(0, together ? own.size() + 1 : 0);
  }
}

/// Leaves the part that evaluate sees.
void keep_tested(Rows& all) {
  const SetPart evaluated = all.count(kValidation) > 0 ? kValidation : kTrain,
                part = all.count(kTest) > 0 ? kTest : evaluated;
  std::erase_if(all.rows, [&](const Row& row) { return row.part != part; });
}

/// Throws Error unless a run can train and evaluate on the rows.
void require_parts(const Rows& all, const Split& split) {
  const std::string& place = all.table;
  require(!all.classes.empty(), "{} names no training images. Add some.", place);
  require_known_classes(place, classes_of(all.rows), all.classes, "its training part");
  const bool validated = all.count(kValidation) > 0;
  if (validated && split.any())
    fail_usage("{} names validation images, and {} makes others. Omit it.", place, split.text());
  if (!validated && !split.any() && all.count(kTest) == 0) {
    fail_usage(
        "{} names neither validation nor test images. Pass --validation 0.1, add val/, or write "
        "train and validation into a column part.",
        place);
  }
  require(all.classes.size() > 1,
          "{} names training images of {}, and at least 2 are needed. Add some.", place,
          counted(std::ssize(all.classes), "class"));
}

}  // namespace

Rows read_image_rows(const DataSource& source, bool tested) {
  const DataPlace& place = source.place;
  Rows all;
  for (const std::string& folder : place.folders) {
    // All folders are searched. Metadata in one of several would otherwise be passed over without a
    // word.
    all = read_tables(folder, place.labels);
    if (place.several() && !all.sources.empty()) {
      fail_usage(
          "{} names the classes, which works with one --data only. Pass --labels with a table.",
          all.sources[0]);
    }
  }
  const bool table = !all.rows.empty();
  std::int64_t repeated = merge(all);
  if (!table) all = read_class_folders(source, tested);
  if (table || place.several()) {
    if (tested) keep_tested(all);
    all.table = fmt::format("{}", fmt::join(all.sources, ", "));
    const auto note = [&](std::int64_t count, const char* what, const std::string& text) {
      if (count > 0) all.notes.push_back(counted(count, what) + text);
    };
    if (table) {
      const std::int64_t unnamed = find_files(source, all);
      repeated += merge(all);  // rows may have lacked the ending
      note(repeated, "row", fmt::format(" of {} left out: they repeat others", all.table));
      note(unnamed, "image",
           fmt::format(" in {} left out, because {} does not name them", place.folder().string(),
                       all.table));
    }
    all.classes = classes_of(all.rows, tested ? std::nullopt : std::optional(kTrain));
    if (!tested) require_parts(all, source.validation);
    arrange(place.folder(), all);
  }
  if (tested) all.notes.clear();
  return all;
}

}  // namespace lockstep
