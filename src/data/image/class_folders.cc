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

Folders folders_in(const fs::path& folder) {
  Folders found{folder};
  for (const std::string& name : entries_of(folder).folders) {
    require(one_line(name) == name,
            "{} contains a class whose name has a line end or another control character. Rename "
            "\"{}\".",
            folder.string(), name);
    if (const auto part = part_named(name)) {
      fs::path& path = found.parts[*part];
      require(path.empty(), "{} and {} are both the {} set. Move one of them elsewhere.",
              path.string(), (folder / name).string(), kPartNames[*part]);
      path = folder / name;
    } else if (!holds_runs(folder / name)) {
      found.classes.push_back(name);
    }
  }
  return found;
}

void look_inside(const Folders& root) {
  std::vector<std::string> found;
  for (const std::string& name : root.classes) {
    const Folders inner = folders_in(root.path / name);
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
