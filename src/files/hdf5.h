// Named arrays and attributes in one HDF5 file, written completely or not at all. Serial HDF5.
// Every array and its metadata have checksums (fletcher32), so damage is an error. All calls throw
// Error that names the file, the reason and the fix.
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

/// The value of an attribute. Text is UTF-8 without NUL characters. Several texts are lines.
using Hdf5Attribute = std::variant<std::int64_t, std::uint64_t, std::string>;

/// Collects the file in memory (about the size of its arrays); commit() writes it by replace_file()
/// (src/files/file.h). Nothing is on disk before that. One thread.
class Hdf5Writer {
 public:
  explicit Hdf5Writer(std::filesystem::path path);
  ~Hdf5Writer();
  /// `name` is "group/sub/name"; groups are created as needed. Arrays have at least one extent; an
  /// extent may be 0.
  void array(const std::string& name, const Shape& shape, std::span<const float> values);
  /// Adds an attribute of the file. Each name once.
  void attribute(const std::string& name, const Hdf5Attribute& value);
  /// Only once, as the last call.
  void commit();

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

/// Opens an existing file read-only. Throws for a damaged file or one of another kind, and
/// UnreadableFile for one that cannot be read now. Arrays must lie in the file. One thread.
class Hdf5Reader {
 public:
  explicit Hdf5Reader(std::filesystem::path path);
  ~Hdf5Reader();
  bool has(const std::string& name) const;  ///< an array with that name exists
  std::vector<std::string> arrays() const;  ///< full names of all arrays, sorted
  Shape shape(const std::string& name) const;
  /// Reads the whole array into `values`, whose size must fit. Throws for a wrong checksum.
  void array(const std::string& name, std::span<float> values) const;
  /// The same; its values.
  std::vector<float> values(const std::string& name) const;
  /// Reads every array, only to verify its checksums. Throws for an array without one.
  void verify() const;
  /// A part that Hdf5Writer does not write: an attribute of a group or an array, or of another
  /// type, a group without arrays, or an array of another type than fp32. Empty: there is none.
  std::string foreign_part() const;

  /// Attributes of the file, except those of types that Hdf5Attribute lacks.
  const std::map<std::string, Hdf5Attribute>& attributes() const;
  std::int64_t integer(const std::string& name) const;
  std::uint64_t unsigned_integer(const std::string& name) const;
  std::string text(const std::string& name) const;

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace lockstep
