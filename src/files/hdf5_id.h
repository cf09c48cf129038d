// Shared by the reader and the writer of HDF5 files: an owner of identifiers, and HDF5's reason for
// an error. Only src/files/hdf5_*.cc include it.
#pragma once

#include <hdf5.h>

#include <string>
#include <utility>

namespace lockstep {

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
  operator hid_t() const { return id_; }  // NOLINT: the C interface needs it everywhere

 private:
  hid_t id_;
};

/// HDF5's own reason for the error of the last call.
inline std::string hdf5_cause() {
  std::string text;
  const auto first = [](unsigned, const H5E_error2_t* error, void* out) -> herr_t {
    *static_cast<std::string*>(out) = error->desc ? error->desc : "";
    return 1;  // stop at the innermost reason
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, first, &text);
  return text.empty() ? "HDF5 returns no reason" : text;
}

/// HDF5 prints no errors on stderr, because Error contains them. The setting is per thread.
inline void keep_hdf5_quiet() { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

}  // namespace lockstep
