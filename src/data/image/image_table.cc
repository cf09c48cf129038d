#include "src/data/image/image_table.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "src/base/check.h"
#include "src/base/plural.h"
#include "src/base/text.h"
#include "src/data/image/class_folders.h"
#include "src/data/read_in_parallel.h"
#include "src/data/text/labelled_rows.h"
#include "src/data/text/words.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFileNames[] = {"file", "file_name", "filename", "path", "image"};
constexpr const char* kMetadata[] = {"metadata.csv", "metadata.jsonl"};
constexpr std::uint64_t kMissing = UINT64_MAX;  ///< the size of a file that does not exist

struct Row {
  std::string name;  ///< relative to the folder of the images, or an absolute path elsewhere
  std::string label;
  SetPart part;
  std::size_t table;  ///< place in Rows::tables
  std::int64_t line;
  std::uint64_t bytes = kMissing;
};

std::string shown(const Row& row) { return excerpt_of(one_line(row.name), 300); }

struct Rows {
  std::vector<std::string> tables;
  std::vector<Row> rows;
  bool has_train = false;
  ImageIndex left = {};  ///< of several folders: other files, and notes

  std::string place(const Row& row) const {
    return fmt::format("{}, line {}", tables[row.table], row.line);
  }
};

/// `file` of a table in `folder`, which `root` is or contains, relative to `root`. An absolute path
/// elsewhere stays as it is. `real_root`: `root` without links.
std::string name_in(const fs::path& root, const fs::path& real_root, const fs::path& folder,
                    const std::string& file) {
  const fs::path path = (folder / file).lexically_normal();
  if (!fs::path(file).is_absolute()) return path.lexically_relative(root.lexically_normal());
  std::error_code missing;  // links to the folder are the same folder
  const fs::path real = fs::weakly_canonical(path.parent_path(), missing) / path.filename();
  const std::string name = real.lexically_relative(real_root).string();
  return name.empty() || name.starts_with("..") ? path.string() : name;
}

/// The first folder in the name of a file; empty: there is none.
std::string first_folder(const std::string& name) {
  const std::size_t end = name.find('/');
  return end == name.npos ? "" : name.substr(0, end);
}

/// Appends the rows of a table, whose names are relative to `folder`. False: it has no columns of
/// files and classes, and is not `required` to have them.
bool add_rows(const DataSource& source, const fs::path& table, const fs::path& folder,
              bool required, Rows& all) {
  const fs::path& root = source.place.folder();
  const std::string path = one_line(table.string());
  std::error_code missing;
  const fs::path real_root = fs::weakly_canonical(root, missing);
  const auto add = [&](LabelledRow row) {
    require(!row.content.empty() && row.content.find('\0') == row.content.npos,
            "{}: the row in line {} names no file. Add it, or remove the row.", path, row.line);
    std::string name = name_in(root, real_root, folder, row.content);
    if (!row.part) row.part = part_named(first_folder(name));
    all.has_train |= row.part == kTrain;
    all.rows.push_back({std::move(name), std::move(row.label), row.part.value_or(kTrain),
                        all.tables.size(), row.line});
  };
  if (!read_labelled_rows(table, {"file", kFileNames}, required, add)) return false;
  all.tables.push_back(path);
  return true;
}

/// Appends the rows of the metadata in `folder`. False: there is none.
bool add_metadata(const DataSource& source, const fs::path& folder, Rows& all) {
  std::error_code unreadable;
  for (const char* name : kMetadata)
    if (fs::is_regular_file(folder / name, unreadable) &&
        add_rows(source, folder / name, folder, /*required=*/false, all))
      return true;
  return false;
}

Rows rows_of(const DataSource& source) {
  const fs::path& root = source.place.folder();
  Rows all;
  if (!source.place.labels.empty()) {
    add_rows(source, source.place.labels, root, /*required=*/true, all);
    require(!all.rows.empty(), "{} names no images. Add a row for each.", all.tables[0]);
  } else if (!add_metadata(source, root, all)) {
    const Folders folders = parts_in(root);
    for (const SetPart part : {kTrain, kValidation, kTest})
      if (!folders.parts[part].empty()) add_metadata(source, folders.parts[part], all);
  }
  return all;
}

/// Throws the usage Error if two of `folders` are one, or one of them contains another.
void require_apart(const std::vector<std::string>& folders) {
  std::error_code unreadable;
  for (const std::string& folder : folders) {
    for (const std::string& other : folders) {
      const fs::path outer = fs::weakly_canonical(folder, unreadable),
                     inner = fs::weakly_canonical(other, unreadable);
      if (&folder == &other || std::ranges::mismatch(outer, inner).in1 != outer.end()) continue;
      fail_usage("--data {} contains --data {}, so its images would count twice. Omit one of them.",
                 one_line(folder), one_line(other));
    }
  }
}

/// Appends the images in the class folders of source.place.folder(), one of several. Without train/
/// its own classes are for training. `prefix`: its path from the first folder, with a slash at its
/// end.
void add_folder(const DataSource& source, const std::string& prefix, Rows& all) {
  if (const Rows own = rows_of(source); !own.tables.empty()) {
    fail_usage(
        "{} names the classes, which works with one --data only. Pass --labels with a table.",
        own.tables[0]);
  }
  const Folders root = parts_in(source.place.folder());
  const std::size_t before = all.rows.size();
  all.has_train |= !root.parts[kTrain].empty();
  if (root.classes.size() < 2) look_inside(root);
  for (const SetPart part : {kTrain, kValidation, kTest}) {
    const bool own = !root.parts[part].empty();
    if (!own && part != kTrain) continue;
    const Folders inner = own ? folders_in(root.parts[part]) : root;
    const std::string place =
        own ? prefix + inner.path.lexically_relative(root.path).string() + "/" : prefix;
    if (!own) root.refuse_parts();
    for (const std::string& name : inner.classes) {
      for (const FoundFile& file : files_of_class(inner.path / name)) {
        if (has_image_name(file.name)) {
          all.rows.push_back(
              {place + name + "/" + file.name, name, part, all.tables.size(), 0, file.bytes});
        } else {
          ++all.left.others;
          ++all.left.kinds[ending_of(file.name)];
        }
      }
      source.host.progress();
    }
  }
  all.tables.push_back(one_line(source.place.folder().string()));
  require(all.rows.size() > before, "{} has no images in class folders. Add some, or omit it.",
          all.tables.back());
  if (!root.parts[kTrain].empty() && !root.classes.empty()) {
    all.left.notes.push_back(fmt::format("these folders in {} are not used: {}", all.tables.back(),
                                         one_line(listed(root.classes))));
  }
}

Rows rows_of_folders(const DataSource& source) {
  require_apart(source.place.folders);
  Rows all;
  std::error_code unreadable;
  const fs::path first = fs::weakly_canonical(source.place.folder(), unreadable);
  DataSource one = source;
  for (const std::string& folder : source.place.folders) {
    one.place.folders = {folder};
    const fs::path path = fs::weakly_canonical(folder, unreadable).lexically_relative(first);
    add_folder(one, path == "." ? "" : path.string() + "/", all);
  }
  return all;
}

/// Leaves one row for each file. Returns the number of the others. Throws Error if rows contradict
/// each other.
std::int64_t merge(Rows& all) {
  std::vector<Row>& rows = all.rows;
  const auto place = [](const Row& row) { return std::tie(row.name, row.table, row.line); };
  std::sort(rows.begin(), rows.end(),
            [&](const Row& a, const Row& b) { return place(a) < place(b); });
  const auto end = std::unique(rows.begin(), rows.end(), [&](const Row& a, const Row& b) {
    if (a.name != b.name) return false;
    const auto check = [&](const char* what, const auto& first, const auto& second) {
      require(first == second, "{} and {} name two {} of {}: {} and {}. Remove one of the rows.",
              all.place(a),
              all.tables[b.table] == all.tables[a.table] ? fmt::format("{}", b.line) : all.place(b),
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
  std::unordered_map<std::string, std::uint64_t> found;
  for (FoundFile& file : files_of_class(source.place.folder()))
    found.emplace(std::move(file.name), file.bytes);
  std::vector<Row>& rows = all.rows;
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
  const auto lost = std::min_element(rows.begin(), rows.end(), [&](const Row& a, const Row& b) {
    return std::tuple(!is_missing(a), a.table, a.line) <
           std::tuple(!is_missing(b), b.table, b.line);
  });
  require(!is_missing(*lost),
          "{} of {} image files do not exist: {} ({}) is the first. Names are relative to {}. "
          "Correct the table, or restore the files.",
          std::count_if(rows.begin(), rows.end(), is_missing), rows.size(), shown(*lost),
          all.place(*lost), source.place.folder().string());
  for (const Row& row : rows) found.erase(row.name);
  return std::count_if(found.begin(), found.end(),
                       [](const auto& file) { return has_image_name(file.first); });
}

/// Sorts like files_of_class(): the files of a folder come before its folders.
std::string order_of(const std::string& name) {
  std::string order;
  std::size_t begin = 0;
  for (std::size_t end; (end = name.find('/', begin)) != name.npos; begin = end + 1)
    order.append(1, '\1').append(name, begin, end - begin);
  return order.append(1, '\0').append(name, begin);
}

/// The part's own folder if all its files lie there; else "".
std::string folder_of(const std::vector<Row>& rows, SetPart part) {
  std::string folder;
  for (const Row& row : rows) {
    if (row.part != part) continue;
    const std::string own = first_folder(row.name);
    if (part_named(own) != part || (!folder.empty() && own != folder)) return "";
    folder = own;
  }
  return folder;
}

/// `rows` are sorted by class, and files of a class as those of class folders.
LabelledFiles files_of(const std::vector<Row>& rows, SetPart part, const DataSource& source,
                       const std::vector<std::string>& classes) {
  const fs::path& root = source.place.folder();
  const std::string own = folder_of(rows, part);
  LabelledFiles files{.classes = static_cast<int>(classes.size())};
  for (const Row& row : rows) {
    if (row.part != part) continue;
    const auto label = std::lower_bound(classes.begin(), classes.end(), row.label);
    files.add(row.name.substr(own.empty() ? 0 : own.size() + 1),
              static_cast<std::int32_t>(label - classes.begin()), row.bytes);
  }
  if (files.size() > 0) files.folder = own.empty() ? root.string() : (root / own).string();
  return files;
}

std::vector<std::string> classes_of(const std::vector<Row>& rows, std::optional<SetPart> part) {
  std::set<std::string> names;
  for (const Row& row : rows)
    if (!part || row.part == *part) names.insert(row.label);
  return {names.begin(), names.end()};
}

/// Leaves the part that evaluate sees.
void keep_tested(std::vector<Row>& rows) {
  for (const SetPart part : {kTest, kValidation, kTrain}) {
    const auto is_other = [&](const Row& row) { return row.part != part; };
    if (std::all_of(rows.begin(), rows.end(), is_other)) continue;
    std::erase_if(rows, is_other);
    return;
  }
}

}  // namespace

std::optional<TableImages> read_image_table(const DataSource& source, bool tested) {
  const bool several = source.place.several();
  Rows all = several ? rows_of_folders(source) : rows_of(source);
  std::vector<Row>& rows = all.rows;
  if (rows.empty()) return {};
  const std::int64_t repeated = merge(all);
  if (tested) keep_tested(rows);
  const std::int64_t others = several ? 0 : find_files(source, all);
  TableImages images{std::move(all.left), all.has_train};
  ImageIndex& index = images.index;
  if (tested) index.notes.clear();
  index.table = fmt::format("{}", fmt::join(all.tables, ", "));
  const auto note = [&](std::int64_t count, const char* what, const std::string& text) {
    if (count > 0 && !tested) index.notes.push_back(counted(count, what) + text);
  };
  note(repeated, "row", fmt::format(" of {} left out: they repeat others", index.table));
  note(others, "image",
       fmt::format(" in {} left out, because {} does not name them", source.place.folder().string(),
                   index.table));
  index.classes = classes_of(rows, tested ? std::nullopt : std::optional(kTrain));
  require(tested || !index.classes.empty(), "{} names no training images. Add some.", index.table);
  if (!tested)
    require_known_classes(index.table, classes_of(rows, {}), index.classes, "its training part");
  std::vector<std::pair<std::string, Row>> sorted;
  for (Row& row : rows) {
    std::string order = order_of(row.name);
    sorted.emplace_back(std::move(order), std::move(row));
  }
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return std::tie(a.second.label, a.first) < std::tie(b.second.label, b.first);
  });
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = std::move(sorted[i].second);
  for (const SetPart part : {kTrain, kValidation, kTest})
    index.parts[part] = files_of(rows, part, source, index.classes);
  return images;
}

}  // namespace lockstep
