// Named arrays and attributes in one HDF5 file, written so that a file of that name is either whole
// or not there. Serial HDF5; every array is checksummed (fletcher32) and so is all that describes
// it, so that damage is told and never believed. All calls throw Error that names the file, the
// cause and the cure.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "src/base/view.h"

namespace lockstep {

/// What an attribute of a file holds. Text is UTF-8 without NUL characters.
using Hdf5Attribute = std::variant<std::int64_t, std::uint64_t, double, std::string>;

/// Collects the file in memory (about the size of its arrays); commit() writes it by replace_file
/// (src/files/file.h). Destroyed before that, nothing has happened on disk. One thread.
class Hdf5Writer {
 public:
  explicit Hdf5Writer(std::filesystem::path path);
  ~Hdf5Writer();
  /// `name` is "group/sub/name"; groups are made as needed. Arrays have at least one extent; any
  /// may be 0.
  void array(const std::string& name, const Shape& shape, std::span<const float> values);
  /// An attribute of the file. Each name once.
  void attribute(const std::string& name, const Hdf5Attribute& value);
  /// Once, as the last call.
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
  bool has(const std::string& name) const;  ///< an array of that name is there
  std::vector<std::string> arrays() const;  ///< full names of all arrays, sorted
  Shape shape(const std::string& name) const;
  /// Reads all of it into `values`, whose size must fit; a checksum that does not match throws.
  void array(const std::string& name, std::span<float> values) const;
  /// Reads every array, for its checksums alone.
  void verify() const;

  /// Attributes of the file; those of other types than Hdf5Attribute's are left out.
  const std::map<std::string, Hdf5Attribute>& attributes() const;
  std::int64_t integer(const std::string& name) const;
  std::uint64_t unsigned_integer(const std::string& name) const;
  double number(const std::string& name) const;
  std::string text(const std::string& name) const;

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace lockstep
