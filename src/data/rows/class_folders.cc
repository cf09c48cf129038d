#include "src/data/rows/class_folders.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <set>
#include <utility>

#include "src/base/check.h"
#include "src/base/plural.h"
#include "src/base/text.h"
#include "src/data/read_in_parallel.h"

namespace lockstep {
namespace {

// A folder of a user contains classes, or parts with classes in them, or one more folder around
// these. Only names and contents can tell. folders_in() sorts the folders of one level into parts
// and classes. parts_in() also accepts longer names of parts. refuse_parts() and look_inside() turn
// the wrong guesses that users make into errors with the right path. Otherwise a network would
// learn "train" and "test" as two classes.
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
    // A link that leads to nothing, or a file that was removed meanwhile, is a file of 0 bytes. Its
    // check names it later.
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
  std::ranges::sort(found.files, {}, &FoundFile::name);
  std::ranges::sort(found.folders);
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
  // A data set may have a class "runs" of images. A folder of --run has no images, or a
  // configuration beside those that a user has put there.
  const std::vector<FoundFile> files = files_of_class(folder);
  const auto is_image = [](const FoundFile& file) { return has_image_name(file.name); };
  const auto is_config = [](const FoundFile& file) { return file.name.ends_with("/config.toml"); };
  return std::ranges::none_of(files, is_image) || std::ranges::any_of(files, is_config);
}

/// Throws Error if there is another one.
void set_part(Folders& folders, SetPart part, const std::string& name) {
  fs::path& path = folders.parts[part];
  require(path.empty(), "{} and {} are both the {} set. Move one of them elsewhere.", path.string(),
          (folders.path / name).string(), kPartNames[part]);
  path = folders.path / name;
}

}  // namespace

void Folders::refuse_parts() const {
  std::set<std::optional<SetPart>> parts;
  std::set<std::vector<std::string>> inside;  // of the first classes, until two differ
  for (const std::string& name : classes) {
    parts.insert(part_in(name));
    if (inside.size() > 1 || inside.contains({})) continue;
    const Listing inner = entries_of(path / name);
    // Classes with equal folders in each look like parts. An empty list marks a class that contains
    // more than folders.
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
  // A name such as "imagenet-train" is a part only if no folder has the part's own name. It must
  // also contain folders and no images, because classes can have such names.
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

std::vector<FoundFile> files_of_class(const fs::path& folder) {
  std::set<fs::path> entered;
  std::vector<FoundFile> files;
  std::error_code error;
  // The folders around the class count as read already. Otherwise a link to one of them would add
  // all other classes to this one.
  for (fs::path inner = fs::canonical(folder, error); !error && inner.has_relative_path();) {
    inner = inner.parent_path();
    entered.insert(inner);
  }
  add_files(folder, "", entered, files);
  return files;
}

void add_classes(const Folders& inner, SetPart part, const DataSource& source,
                 bool (*wanted)(const fs::path&), Rows& all, const std::string& prefix) {
  const std::vector<std::string>& classes = inner.classes;
  // Threads fill one list for each class. The lists are joined in the order of classes, so the
  // result does not depend on the threads.
  std::vector<std::vector<FoundFile>> found(classes.size());
  read_in_parallel(source.threads, std::ssize(found), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      found[i] = files_of_class(inner.path / classes[i]);
      source.host.progress();
    }
  });
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (const FoundFile& file : std::exchange(found[i], {})) {
      if (wanted(file.name)) {
        all.rows.push_back({.name = prefix + classes[i] + "/" + file.name,
                            .label = classes[i],
                            .bytes = file.bytes,
                            .part = part});
      } else {
        ++all.others;
        ++all.kinds[ending_of(file.name)];
      }
    }
  }
  all.folders[part] = inner.path.string();
}

namespace {

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

/// Throws the usage Error if one folder in `root` has train/: archives often unpack to one more
/// folder.
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

/// Throws Error unless a run on this one folder can train and evaluate.
void require_parts(const Folders& root, const Split& split) {
  const std::string folder = root.path.string();
  const bool validated = !root.parts[kValidation].empty();
  if (validated && split.any())
    fail_usage("{} has val/, and {} makes another one. Omit it.", folder, split.text());
  if (validated || split.any() || !root.parts[kTest].empty()) return;
  if (root.parts[kTrain].empty())
    fail_usage("{} has no train/. Pass --validation 0.1 to divide its classes.", folder);
  fail("{} contains neither val/ nor test/ beside {}. Add one of them, or pass --validation 0.1.",
       folder, root.parts[kTrain].string());
}

/// The classes of the only folder of a data set.
void set_classes(const Folders& own, std::size_t least, Rows& all) {
  all.classes = own.classes;
  require(all.classes.size() >= least,
          "{} contains {}{}{}, and at least {} are needed. Put the images of each class into a "
          "folder of its name, pass the folder that contains such folders, or pass --labels with a "
          "table of files and classes.",
          own.path.string(), counted(all.classes.size(), "class folder"),
          all.classes.empty() ? "" : ": ", listed(all.classes), least);
}

/// read_class_folders() of one of them. Appends the folders in it that are neither parts nor
/// classes to `unused`.
void add_folder(const DataSource& source, const fs::path& folder, bool tested,
                std::vector<std::string>& unused, Rows& all) {
  const bool several = source.place.several();
  const Folders root = parts_in(folder);
  std::vector<std::pair<SetPart, Folders>> parts;  // those that are read, training first
  for (const SetPart part : {kTest, kValidation, kTrain})
    if (!root.parts[part].empty() && (!tested || parts.empty()))
      parts.emplace(parts.begin(), part, folders_in(root.parts[part]));
  const bool has_train = !root.parts[kTrain].empty();
  if (has_train) {
    for (const std::string& name : root.classes) unused.push_back((folder / name).string());
  } else if (!tested || parts.empty()) {
    // Without train/ these folders would be the classes. First it is checked whether another folder
    // level was meant.
    if (tested || root.classes.size() < 2 || (!source.validation.any() && parts.empty()))
      look_inside(root);
    root.refuse_parts();
    parts.emplace(parts.begin(), kTrain, root);
  }
  all.has_train |= has_train;
  if (!several) {
    const Folders& own = parts.front().second;
    set_classes(own, tested ? 1 : 2, all);
    if (!tested) require_parts(root, source.validation);
    for (const auto& [part, inner] : parts)
      require_known_classes(inner.path.string(), inner.classes, own.classes, own.path.string());
  }
  std::error_code unreadable;
  const fs::path place =
      fs::weakly_canonical(folder, unreadable)
          .lexically_relative(fs::weakly_canonical(source.place.folder(), unreadable));
  const auto prefix = [](const fs::path& path) { return path == "." ? "" : path.string() + "/"; };
  const std::size_t before = all.rows.size();
  for (const auto& [part, inner] : parts) {
    // Names from several folders must differ and tell where the file lies. So they are relative to
    // the first folder.
    const std::string within = prefix(place) + prefix(inner.path.lexically_relative(root.path));
    add_classes(inner, part, source, has_image_name, all, several ? within : "");
    for (const fs::path& path : inner.parts)
      if (!path.empty() && inner.path != root.path) unused.push_back(path.string());
  }
  if (!several) return;
  all.sources.push_back(one_line(folder.string()));
  require(all.rows.size() > before, "{} has no images in class folders. Add some, or omit it.",
          all.sources.back());
}

}  // namespace

Rows read_class_folders(const DataSource& source, bool tested) {
  require_apart(source.place.folders);
  Rows all;
  std::vector<std::string> unused;
  for (const std::string& folder : source.place.folders)
    add_folder(source, folder, tested, unused, all);
  if (!unused.empty())
    all.notes.push_back("these folders are not used: " + one_line(listed(unused)));
  return all;
}

}  // namespace lockstep
