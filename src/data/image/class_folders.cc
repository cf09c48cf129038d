#include "src/data/image/class_folders.h"

#include <algorithm>
#include <set>

#include "src/base/check.h"
#include "src/base/text.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// The entries of a folder, sorted by name, without hidden ones.
struct Listing {
  std::vector<fs::path> files, folders;
};

Listing entries_of(const fs::path& folder) {
  Listing found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path& path = entry->path();
    if (path.filename().string().starts_with(".")) continue;
    const fs::file_status status = entry->status(error);  // of what a link leads to
    if (!fs::status_known(status)) break;
    (fs::is_directory(status) ? found.folders : found.files).push_back(path);
  }
  require(!error,
          "cannot read {}: {}; --data names a folder with train/CLASS/IMAGE and "
          "test/CLASS/IMAGE",
          folder.string(), error.message());
  std::sort(found.files.begin(), found.files.end());
  std::sort(found.folders.begin(), found.folders.end());
  return found;
}

/// Appends the files of `folder`, then those of each folder in it. `entered` holds the folders that
/// were read. A folder that several links lead to is read once, so that a loop of links ends.
void add_files(const fs::path& folder, std::set<fs::path>& entered, std::vector<fs::path>& files) {
  std::error_code error;
  const fs::path place = fs::canonical(folder, error);
  if (!error && !entered.insert(place).second) return;
  const Listing found = entries_of(folder);
  files.insert(files.end(), found.files.begin(), found.files.end());
  for (const fs::path& inner : found.folders) add_files(inner, entered, files);
}

}  // namespace

std::vector<std::string> class_names(const fs::path& folder, std::size_t least) {
  std::vector<std::string> names;
  for (const fs::path& path : entries_of(folder).folders) names.push_back(path.filename().string());
  require(
      names.size() >= least,
      "{} holds {} class folders, and at least {} are needed; put the images of each class into a "
      "folder of its name",
      folder.string(), names.size(), least);
  for (const std::string& name : names) {
    require(
        printable(name) == name && name.find('\n') == std::string::npos,
        "{} holds a class whose name has a line end or another control character; rename \"{}\"",
        folder.string(), name);
  }
  return names;
}

std::vector<fs::path> files_of_class(const fs::path& folder) {
  std::set<fs::path> entered;
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::path inner = fs::canonical(folder, error); !error && inner.has_relative_path();) {
    inner = inner.parent_path();
    entered.insert(inner);
  }
  add_files(folder, entered, files);
  return files;
}

void require_same_classes(const fs::path& a, const std::vector<std::string>& names,
                          const fs::path& b, const std::vector<std::string>& others) {
  require(names == others,
          "{} holds the classes {}, and {} holds {}; rename or move the folders until they agree",
          a.string(), fmt::join(names, ", "), b.string(), fmt::join(others, ", "));
}

void require_known_classes(const fs::path& folder, const std::vector<std::string>& names,
                           const std::vector<std::string>& known) {
  const std::vector<std::string> unknown = missing_from(known, names);
  if (unknown.empty()) return;
  fail_usage("{} holds classes that the checkpoint does not know: {}; it knows {}", folder.string(),
             listed(unknown), listed(known));
}

void relabel(std::vector<std::int32_t>& labels, const std::vector<std::string>& names,
             const std::vector<std::string>& known) {
  for (std::int32_t& label : labels) {
    const auto place = std::find(known.begin(), known.end(), names[label]);
    label = static_cast<std::int32_t>(place - known.begin());
  }
}

}  // namespace lockstep
