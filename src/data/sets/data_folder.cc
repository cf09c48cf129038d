#include "src/data/sets/data_folder.h"

#include <fnmatch.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <optional>

#include "src/base/check.h"
#include "src/base/table.h"
#include "src/data/dataset.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// A pattern of names that tell what lies in a folder, and the sentences for it. Names of folders
/// end with a slash.
struct Sign {
  const char* pattern;
  std::string_view set;  ///< the data set that reads it as it is; empty: none
  std::string_view advice;
};
constexpr std::string_view kOther =
    "{folder} contains {name}. Pass --dataset {set} --data {folder}.";
// The first match counts, so signs of a whole data set come before those of single files.
constexpr Sign kSigns[] = {
    {"train/", "folder", kOther},
    {"train.h5", "hdf5", kOther},
    {"@(data_batch_1.bin|cifar-10-batches-bin/)", "cifar10", kOther},
    {"@(*train-images[-.]idx3-ubyte*|*MNIST/)", "mnist", kOther},
    {"fashion-mnist/", "", "{folder} contains {name}. Pass --dataset mnist --data {path}."},
    {"reuters.h5", "reuters", kOther},
    {"reuters.npz", "", "{path} is not converted. Run scripts/convert_reuters.py {path} {folder}."},
    {"cifar-10-binary.tar.gz", "", "{path} is not unpacked. Run tar -xzf {path} -C {folder}"},
    {"gzip.zip", "", "{path} is not unpacked. Run unzip {path} -d {folder}"},
    {"@(cifar-10-[!b]*|cifar-10-batches-[!b]*|data_batch_1*)", "",
     "{path} is not the binary version. Download that: scripts/get_data.sh cifar10 NEW_FOLDER"},
    {"@(cifar-100-*|train.bin|stl10_binary*|train_X.bin|*.npz|*.csv|*.mat)", "",
     "{path} is in a form that is not read. Run scripts/convert_images.py {path} NEW_FOLDER"},
    {"*.h5", "", "{path} may be packed images. Pass --dataset packed --data {path} for these."},
};

/// Whether `pattern` of fnmatch() stands for a name.
auto fits(const char* pattern) {
  return [pattern](const std::string& name) {
    return ::fnmatch(pattern, name.c_str(), FNM_EXTMATCH) == 0;
  };
}

/// The sentences of the first of kSigns that fits one of the files `names` of `folder` and is not
/// of data set `own`.
std::optional<std::string> other_data(std::string_view own, const fs::path& folder,
                                      const std::vector<std::string>& names) {
  for (const Sign& sign : kSigns) {
    const auto found = std::ranges::find_if(names, fits(sign.pattern));
    if (found == names.end()) continue;
    if (sign.set == own) return {};
    return fmt::format(fmt::runtime(sign.advice), fmt::arg("set", sign.set),
                       fmt::arg("name", *found), fmt::arg("path", (folder / *found).string()),
                       fmt::arg("folder", folder.string()));
  }
  return {};
}

/// A command that downloads `set`, to `directory` if nothing of the user lies there.
std::string download(std::string_view set, const char* downloaded, const fs::path& directory) {
  if (*downloaded == 0) return fmt::format("Pass a folder with {}.", find(datasets(), set).files);
  std::error_code error;
  const std::vector<std::string> names = names_in(directory, error);
  const bool usable = error ? error == std::errc::no_such_file_or_directory
                            : std::ranges::all_of(names, fits(downloaded));
  return fmt::format("Download the data set: scripts/get_data.sh {} {}", set,
                     usable ? directory.string() : "NEW_FOLDER");
}

}  // namespace

std::string look_into(std::string_view set, const char* downloaded, const fs::path& directory,
                      const fs::path& first) {
  require(!directory.empty(), "the data set needs the folder of its files. Pass --data DIR. {}",
          download(set, downloaded, "DIR"));
  std::error_code error, ignored;
  const std::vector<std::string> names = names_in(directory, error);
  const std::string path = directory.string(), advice = download(set, downloaded, directory);
  if (error == std::errc::no_such_file_or_directory) {
    fail("{} does not exist. Correct --data, or {}{}", path,
         static_cast<char>(std::tolower(advice[0])), advice.substr(1));
  }
  if (error) fail_to_open(directory, error.value(), advice);
  if (fs::exists(first, ignored)) return advice;
  return other_data(set, directory, names).value_or(advice);
}

std::vector<std::string> names_in(const fs::path& directory, std::error_code& error) {
  std::vector<std::string> names;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    const fs::path name = entry->path().filename();
    if (name.string().starts_with(".")) continue;
    names.push_back(entry->is_directory(ignored) ? (name / "").string() : name.string());
  }
  std::ranges::sort(names);
  return names;
}

void fail_to_open(const fs::path& path, int error, std::string_view advice) {
  if (error == EACCES) {
    advice = "Change its permissions.";
  } else if (error != ENOENT) {
    advice = "Check the disk or the network file system.";
  }
  fail("cannot open {}: {}. {}", path.string(), std::strerror(error), advice);
}

}  // namespace lockstep
