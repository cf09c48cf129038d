// Shared by the readers and the writers of HDF5 files: an owner of identifiers, HDF5's reason for
// an error, and files that are read. Only src/files/hdf5_*.cc include it.
#pragma once

#include <hdf5.h>

#include <filesystem>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// Excludes other threads from HDF5, which is usually built without locks of its own. Every call of
/// HDF5 needs it. A thread may take it again.
std::unique_lock<std::recursive_mutex> lock_hdf5();

/// Owner of any HDF5 identifier except a file that is written: its close must be checked.
class Hdf5Id {
 public:
  explicit Hdf5Id(hid_t id) : id_(id) {}
  ~Hdf5Id() {
    if (id_ >= 0) H5Idec_ref(id_);
  }
  Hdf5Id(Hdf5Id&& other) noexcept : id_(std::exchange(other.id_, -1)) {}
  Hdf5Id& operator=(Hdf5Id&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  hid_t release() { return std::exchange(id_, -1); }
  operator hid_t() const { return id_; }  // NOLINT: the C interface needs it everywhere

 private:
  hid_t id_;
};

/// HDF5's own reason for the error of the last call.
std::string hdf5_cause();

/// Before the first call of HDF5 in a thread. HDF5 prints no errors on stderr, because Error
/// contains them, and closes no file at the exit of the program: it would crash if a close failed.
void keep_hdf5_quiet();

/// Opens a file that is complete, without a lock. Throws UnreadableFile if it cannot be opened now.
/// Negative: it is damaged or no HDF5 file; `cause` is then HDF5's reason.
Hdf5Id open_hdf5(const std::filesystem::path& path, std::string& cause);

/// After a call that failed: throws UnreadableFile if the system could not read `path`, memory is
/// short, or another program writes the file.
void require_hdf5_read(const std::filesystem::path& path);

/// The objects in a file: names of arrays, and names of others. "NAME attributes" is one more
/// object for each that has attributes.
struct Hdf5Objects {
  std::vector<std::string> arrays, others;
};

/// Lists each object once, by hard links only: those never leave the file. Negative: the file is
/// damaged, or cannot be read.
herr_t list_hdf5_objects(hid_t file, Hdf5Objects& objects);

/// Whether the numbers of an array lie in its own file.
bool lies_in_file(hid_t creation);

}  // namespace lockstep
