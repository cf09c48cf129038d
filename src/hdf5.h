// Named arrays and attributes in one HDF5 file, written so that a file of that name is either whole or not there.
// Serial HDF5; every data set is checksummed (fletcher32). All calls throw Error that names the file, the cause and the cure.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/view.h"

namespace lockstep {

/// Writes `path`.tmp-<pid>; commit() syncs it, renames it to `path` and syncs the directory. Destroyed before that, it removes
/// the temporary and nothing has happened. One thread.
class Hdf5Writer {
 public:
  explicit Hdf5Writer(std::filesystem::path path);
  ~Hdf5Writer();
  /// `name` is "group/sub/name"; groups are made as needed.
  void array(const std::string& name, const Shape& shape, std::span<const float> values);
  void attribute(const std::string& name, std::int64_t value);
  void attribute(const std::string& name, double value);
  void attribute(const std::string& name, const std::string& value);
  void commit();

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

/// Opens an existing file read-only; a damaged or foreign file throws. One thread.
class Hdf5Reader {
 public:
  explicit Hdf5Reader(std::filesystem::path path);
  ~Hdf5Reader();
  bool has(const std::string& name) const;              ///< an array of that name is there
  std::vector<std::string> arrays() const;              ///< full names of all arrays, sorted
  Shape shape(const std::string& name) const;
  /// Reads all of it into `values`, whose size must fit; a checksum that does not match throws.
  void array(const std::string& name, std::span<float> values) const;
  std::int64_t integer(const std::string& name) const;  ///< attributes of the file
  double number(const std::string& name) const;
  std::string text(const std::string& name) const;

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace lockstep
