// Large arrays of whole numbers in an HDF5 file: written piece by piece, and read at any place by
// any number of threads. HDF5 lays the file out; the numbers are written and read by system calls.
// All calls throw Error that names the file, the reason and the fix.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "src/files/file.h"

namespace lockstep {

/// An array of one extent. Numbers are unsigned and little-endian.
struct BytesArray {
  std::string name;          ///< "group/name"
  std::uint64_t count = 0;   ///< numbers
  std::uint64_t width = 1;   ///< bytes of a number: 1, 4 or 8
  std::uint64_t offset = 0;  ///< of its first byte in the file

  std::uint64_t bytes() const { return count * width; }
};

/// The file appears under its name with commit(), complete, or not at all. One thread.
class Hdf5BytesWriter {
 public:
  /// Reserves the space of all arrays, so that a full disk is an error at once. Nothing of the name
  /// `path` may exist. The offsets are chosen here.
  Hdf5BytesWriter(std::filesystem::path path, std::vector<BytesArray> arrays);
  ~Hdf5BytesWriter();
  Hdf5BytesWriter& operator=(Hdf5BytesWriter&&) = delete;  ///< neither copied nor moved

  /// The next bytes of an array.
  void append(const std::string& name, std::span<const std::uint8_t> bytes);
  /// After all bytes of all arrays were appended. Once.
  void commit();

 private:
  void lay_out();

  std::filesystem::path path_, temporary_;
  std::map<std::string, BytesArray> arrays_;
  std::map<std::string, std::uint64_t> written_;
  int descriptor_ = -1;
};

/// Read-only. Throws for a damaged file, and for arrays that do not lie in the file as
/// Hdf5BytesWriter writes them. UnreadableFile: the file cannot be read now.
class Hdf5BytesReader {
 public:
  explicit Hdf5BytesReader(std::filesystem::path path);

  bool has(const std::string& name) const { return arrays_.contains(name); }
  /// An array that exists with numbers of `width` bytes.
  const BytesArray& array(const std::string& name, std::uint64_t width) const;
  /// Bytes from place `begin` of the array on. Any thread.
  void read(const BytesArray& array, std::uint64_t begin, std::span<std::uint8_t> to) const;
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  InputFile file_;
  std::map<std::string, BytesArray> arrays_;
};

}  // namespace lockstep
