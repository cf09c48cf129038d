#include "src/files/hdf5_id.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "src/base/check.h"
#include "src/files/file.h"

namespace lockstep {
namespace {

/// HDF5's number of what happened, and its text.
struct Reason {
  hid_t minor;
  std::string text;
};

/// The reasons for the error of the last call, the innermost first.
std::vector<Reason> reasons() {
  std::vector<Reason> found;
  const auto add = [](unsigned, const H5E_error2_t* error, void* out) -> herr_t {
    static_cast<std::vector<Reason>*>(out)->push_back(
        {error->min_num, error->desc != nullptr ? error->desc : ""});
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, add, &found);
  return found;
}

}  // namespace

std::unique_lock<std::recursive_mutex> lock_hdf5() {
  static std::recursive_mutex mutex;
  return std::unique_lock(mutex);
}

std::string hdf5_cause() {
  const std::vector<Reason> found = reasons();
  return found.empty() ? "HDF5 returns no reason" : found.front().text;
}

void keep_hdf5_quiet() {
  static const herr_t no_exit_handler = H5dont_atexit();
  static_cast<void>(no_exit_handler);  // it fails if another library has called HDF5
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

Hdf5Id open_hdf5(const std::filesystem::path& path, std::string& cause) {
  keep_hdf5_quiet();
  const Hdf5Id access(H5Pcreate(H5P_FILE_ACCESS));
  if (access < 0) fail_to_read(path, ENOMEM);
    // A complete file needs no lock for reading, and many network file systems have no locks.
#if H5_VERSION_GE(1, 12, 1) || (H5_VERSION_GE(1, 10, 7) && !H5_VERSION_GE(1, 12, 0))
  H5Pset_file_locking(access, /*use_file_locking=*/false, /*ignore_when_disabled=*/true);
#endif
  Hdf5Id file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access));
  if (file < 0) {  // before the next call, which forgets the reasons
    require_hdf5_read(path);
    cause = hdf5_cause();
  }
  return file;
}

void require_hdf5_read(const std::filesystem::path& path) {
  constexpr std::string_view kErrno = "errno = ";  // HDF5 adds it to the failures of system calls
  const std::vector<Reason> found = reasons();
  // The reasons are copied above, because the calls below forget them. A file that changes while it
  // is read can fail in any way, so this check comes first.
  require_no_writer(path);
  for (const auto& [minor, text] : found) {
    // Short memory is no damage. An older checkpoint must not take the place of this one because of
    // it.
    if (minor == H5E_NOSPACE || minor == H5E_CANTALLOC) fail_to_read(path, ENOMEM);
    const std::size_t at = text.find(kErrno);
    const int error = at == text.npos ? 0 : std::atoi(text.c_str() + at + kErrno.size());
    if (error == 0) continue;
    if (text.find("lock") == text.npos) fail_to_read(path, error);
    throw UnreadableFile(
        fmt::format("cannot lock {} to read it: {}; set HDF5_USE_FILE_LOCKING=FALSE", path.string(),
                    std::strerror(error)),
        error);
  }
  // Programs mark a file that they change, and remove the mark when they close it.
  if (found.empty() || found.front().minor != H5E_CANTOPENFILE) return;
  throw UnreadableFile(
      fmt::format("{} cannot be read now: another program has changed it and not closed it. Close "
                  "that program; if it has crashed, run h5clear -s {}.",
                  path.string(), path.string()),
      EIO);
}

herr_t list_hdf5_objects(hid_t file, Hdf5Objects& objects) {
  const auto visit = [](hid_t, const char* name, const auto* info, void* out) -> herr_t {
    auto& all = *static_cast<Hdf5Objects*>(out);
    if (std::string_view(name) == ".") return 0;  // the file
    (info->type == H5O_TYPE_DATASET ? all.arrays : all.others).emplace_back(name);
    if (info->num_attrs > 0) all.others.push_back(std::string(name) + " attributes");
    return 0;
  };
#if H5_VERSION_GE(1, 12, 0)
  return H5Ovisit3(file, H5_INDEX_NAME, H5_ITER_INC, visit, &objects,
                   H5O_INFO_BASIC | H5O_INFO_NUM_ATTRS);
#else
  return H5Ovisit(file, H5_INDEX_NAME, H5_ITER_INC, visit, &objects);
#endif
}

bool lies_in_file(hid_t creation) {
  const H5D_layout_t layout = H5Pget_layout(creation);
  return (layout == H5D_COMPACT || layout == H5D_CONTIGUOUS || layout == H5D_CHUNKED) &&
         H5Pget_external_count(creation) == 0;
}

}  // namespace lockstep
