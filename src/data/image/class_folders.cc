#include "src/data/image/class_folders.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <set>

#include "src/base/check.h"
#include "src/base/plural.h"
#include "src/base/text.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// The entries of a folder, sorted by name, without those of systems and tools.
struct Listing {
  std::vector<FoundFile> files;
  std::vector<std::string> folders;

  /// Whether it contains folders, and at most as many other files, none of which is an image.
  bool has_folders_only() const {
    return !folders.empty() && files.size() <= folders.size() &&
           std::ranges::none_of(files, [](const auto& file) { return has_image_name(file.name); });
  }
};

/// The system calls: paths of the standard library take six times as long for a million files.
Listing entries_of(const fs::path& folder) {
  errno = 0;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(folder.c_str()), ::closedir);
  Listing found;
  while (directory != nullptr) {
    const dirent* entry = ::readdir(directory.get());
    if (entry == nullptr) break;
    if (is_of_system(entry->d_name)) continue;
    struct stat status {};  // of what a link leads to
    if (::fstatat(::dirfd(directory.get()), entry->d_name, &status, 0) != 0) status = {};
    errno = 0;
    if (S_ISDIR(status.st_mode)) {
      found.folders.emplace_back(entry->d_name);
    } else {
      found.files.push_back({entry->d_name, static_cast<std::uint64_t>(status.st_size)});
    }
  }
  require(errno == 0,
          "cannot read {}: {}. Check its permissions, the disk or the network file system.",
          folder.string(), std::strerror(errno));
  std::sort(found.files.begin(), found.files.end(),
            [](const FoundFile& a, const FoundFile& b) { return a.name < b.name; });
  std::sort(found.folders.begin(), found.folders.end());
  return found;
}

/// Appends the files of `folder`, whose names begin with `prefix`, then those of each folder in it.
/// `entered` holds the folders that were read. A folder that several links lead to is read once, so
/// that a loop of links ends.
void add_files(const fs::path& folder, const std::string& prefix, std::set<fs::path>& entered,
               std::vector<FoundFile>& files) {
  std::error_code error;
  const fs::path place = fs::canonical(folder, error);
  if (!error && !entered.insert(place).second) return;
  Listing found = entries_of(folder);
  for (FoundFile& file : found.files) files.push_back({prefix + file.name, file.bytes});
  for (const std::string& inner : found.folders)
    add_files(folder / inner, prefix + inner + "/", entered, files);
}

/// Whether the folder is that of runs, which --run makes, and no class of this name.
bool holds_runs(const fs::path& folder) {
  if (folder.filename() != "runs") return false;
  const std::vector<FoundFile> files = files_of_class(folder);
  const auto is_image = [](const FoundFile& file) { return has_image_name(file.name); };
  const auto is_config = [](const FoundFile& file) { return file.name.ends_with("/config.toml"); };
  return std::none_of(files.begin(), files.end(), is_image) ||
         std::any_of(files.begin(), files.end(), is_config);
}

/// Throws Error if there is another one.
void set_part(Folders& folders, SetPart part, const std::string& name) {
  fs::path& path = folders.parts[part];
  require(path.empty(), "{} and {} are both the {} set. Move one of them elsewhere.", path.string(),
          (folders.path / name).string(), kPartNames[part]);
  path = folders.path / name;
}

}  // namespace

const std::vector<std::string>& Folders::at_least(std::size_t least) const {
  require(classes.size() >= least,
          "{} contains {}{}{}, and at least {} are needed. Put the images of each class into a "
          "folder of its name, pass the folder that contains such folders, or pass --labels with a "
          "table of files and classes.",
          path.string(), counted(classes.size(), "class folder"), classes.empty() ? "" : ": ",
          listed(classes), least);
  return classes;
}

void Folders::refuse_parts() const {
  std::set<std::optional<SetPart>> parts;
  std::set<std::vector<std::string>> inside;  // of the first classes, until two differ
  for (const std::string& name : classes) {
    parts.insert(part_in(name));
    if (inside.size() > 1 || inside.contains({})) continue;
    const Listing inner = entries_of(path / name);
    inside.insert(inner.has_folders_only() ? inner.folders : std::vector<std::string>());
  }
  const bool named = parts.size() > 1 && !parts.contains(std::nullopt);
  if (!named && (classes.size() < 2 || inside.size() > 1 || inside.begin()->size() < 2)) return;
  fail_usage(
      "{0} contains {1}, which seem to be parts of a data set, not classes. Name them train, val "
      "or "
      "test, with a folder for each class in them. If they are classes, move them into {0}/train.",
      path.string(), listed(classes));
}

Folders folders_in(const fs::path& folder) {
  Folders found{folder};
  for (const std::string& name : entries_of(folder).folders) {
    require(one_line(name) == name,
            "{} contains a class whose name has a line end or another control character. Rename "
            "\"{}\".",
            folder.string(), name);
    if (const auto part = part_named(name)) {
      set_part(found, *part, name);
    } else if (!holds_runs(folder / name)) {
      found.classes.push_back(name);
    }
  }
  return found;
}

Folders parts_in(const fs::path& folder) {
  Folders found = folders_in(folder);
  const auto named = found.parts;
  std::erase_if(found.classes, [&](const std::string& name) {
    const auto part = part_in(name);
    if (!part || !named[*part].empty() || !entries_of(folder / name).has_folders_only())
      return false;
    set_part(found, *part, name);
    return true;
  });
  for (std::size_t part = 0; part < kParts; ++part) {
    fs::path& path = found.parts[part];
    if (path.empty()) continue;
    const Listing inner = entries_of(path);
    if (inner.folders.size() == 1 && part_in(inner.folders[0]) == part &&
        entries_of(path / inner.folders[0]).has_folders_only())
      path /= inner.folders[0];
  }
  return found;
}

void look_inside(const Folders& root) {
  std::vector<std::string> found;
  for (const std::string& name : root.classes) {
    const Folders inner = parts_in(root.path / name);
    if (!inner.parts[kTrain].empty()) found.push_back(inner.path.string());
  }
  if (found.size() != 1) return;
  fail_usage("{} has no train/, but {} has. Pass --data {}.", root.path.string(), found[0],
             found[0]);
}

std::vector<FoundFile> files_of_class(const fs::path& folder) {
  std::set<fs::path> entered;
  std::vector<FoundFile> files;
  std::error_code error;
  for (fs::path inner = fs::canonical(folder, error); !error && inner.has_relative_path();) {
    inner = inner.parent_path();
    entered.insert(inner);
  }
  add_files(folder, "", entered, files);
  return files;
}

void require_known_classes(const fs::path& folder, const std::vector<std::string>& names,
                           const std::vector<std::string>& known, const std::string& owner) {
  const std::vector<std::string> unknown = missing_from(known, names);
  if (unknown.empty()) return;
  std::vector<std::string> all = known;
  all.insert(all.end(), unknown.begin(), unknown.end());
  const std::string alike = look_alikes(all);
  fail_usage("{} contains classes that {} does not know: {}. It knows {}{}{}. Rename or move them.",
             folder.string(), owner, listed(unknown), listed(known), alike.empty() ? "" : "; ",
             alike);
}

void relabel(std::vector<std::int32_t>& labels, const std::vector<std::string>& names,
             const std::vector<std::string>& known) {
  for (std::int32_t& label : labels) {
    const auto place = std::find(known.begin(), known.end(), names[label]);
    label = static_cast<std::int32_t>(place - known.begin());
  }
}

}  // namespace lockstep
