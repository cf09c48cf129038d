// Files: read whole or in parts, and written so that they are complete or absent. Every error names
// the file, the reason of the system and the fix.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "src/base/error.h"

namespace lockstep {

/// The fix for `error`, an errno of a file or a folder: the end of a message.
std::string_view advice(int error);

/// A file that cannot be opened or read now: the disk, a lock, permissions, another program that
/// writes it. It may be whole, so no older file may take its place, and nothing may be written over
/// it.
class UnreadableFile : public Error {
 public:
  /// `cause`: an errno. EBUSY: another program has the file open, and the exit code is kExitInUse.
  UnreadableFile(const std::string& message, int cause);
  int cause() const { return cause_; }

 private:
  int cause_;
};

/// Throws Error (kExitStorage): "cannot write a.h5: No space left on device; free some space ...".
[[noreturn]] void fail_to(const char* verb, const std::filesystem::path& path, int error);

/// Returns when the names in `directory` have reached the disk. Throws Error.
void sync_directory(const std::filesystem::path& directory);

/// Throws UnreadableFile. `error`: errno of the call that could not open or read `path`.
[[noreturn]] void fail_to_read(const std::filesystem::path& path, int error);

/// Reads from `begin` on until `to` is full or the file ends. Returns the number of bytes; -1: it
/// failed, and errno tells why. Any thread.
std::int64_t read_at(int descriptor, std::int64_t begin, std::span<char> to);

/// A regular file that is open for reading.
class InputFile {
 public:
  /// Throws UnreadableFile, and Error for another kind of file.
  explicit InputFile(std::filesystem::path path);
  ~InputFile();
  InputFile& operator=(InputFile&&) = delete;  ///< neither copied nor moved

  std::uint64_t size() const { return size_; }  ///< when it was opened
  struct stat status() const;                   ///< now. Throws UnreadableFile. Any thread
  /// Fills `to` with the bytes from `begin` on. Throws UnreadableFile, and Error if the file has
  /// become shorter. Any thread.
  void read(std::uint64_t begin, std::span<char> to) const;
  /// `count` bytes from `begin` on. Throws the same. Any thread.
  std::string bytes(std::uint64_t begin, std::uint64_t count) const {
    std::string to(count, '\0');
    read(begin, to);
    return to;
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::uint64_t size_ = 0;
  int descriptor_;
};

/// The contents of a regular file, or its first `most` bytes. Nothing: there is none, or `path` is
/// of another kind, because a pipe would wait for a writer and a device has no end. Throws
/// UnreadableFile.
std::optional<std::string> read_file(const std::filesystem::path& path,
                                     std::uint64_t most = std::uint64_t{1} << 62);

/// Whether the file was removed. A file that cannot be examined now is still there.
bool is_gone(const std::filesystem::path& file);

/// Identifies the contents of a file: path, inode, size and time. Nothing: it cannot be examined.
using FileStamp =
    std::tuple<std::filesystem::path, std::uint64_t, std::int64_t, std::int64_t, std::int64_t>;
std::optional<FileStamp> stamp_of(const std::filesystem::path& file);

/// For a file whose contents are wrong: throws UnreadableFile (EBUSY) if another program may be
/// writing them. A program of this machine has the file open for writing, or any program has locked
/// it against readers. A file that cannot be examined is no error. Any thread.
void require_no_writer(const std::filesystem::path& file);

/// The same, and throws if the file changes within two seconds, by a program of another machine.
/// `before`: from before it was read.
void require_unchanged(const FileStamp& before);

/// Calls `read`, which reads `file`. If it throws Error, require_no_writer() comes first.
template <class Read>
auto read_complete(const std::filesystem::path& file, const Read& read) {
  try {
    return read();
  } catch (const Error&) {
    require_no_writer(file);
    throw;
  }
}

/// A file that is open for writing at its end. Calls throw Error. One thread.
class OutputFile {
 public:
  enum class Mode {
    append,  ///< keeps the contents of an existing file
    extend,  ///< the same, but the file must exist
    create,  ///< nothing of that name may exist, not even a link
  };
  /// Never waits for the reader of a pipe. It throws if there is none, and write() throws if the
  /// pipe is full.
  OutputFile(std::filesystem::path path, Mode mode);
  ~OutputFile();  ///< closes, without errors; call sync() and close() for them
  OutputFile& operator=(OutputFile&&) = delete;  ///< neither copied nor moved

  /// Writes all of `bytes`, or throws and removes the part that was written (except from a pipe).
  /// Not buffered: when it returns, other processes see the bytes.
  void write(std::string_view bytes);
  void sync();   ///< returns when the bytes are on the disk
  void close();  ///< some file systems (NFS) report a full disk only here
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// Replaces the contents of `path` by `bytes` completely or not at all, even if the power fails. It
/// writes temporary_name(path), syncs it, renames it to `path` and syncs the directory. On failure
/// it removes the temporary, and an existing `path` is untouched.
void replace_file(const std::filesystem::path& path, std::string_view bytes);

/// Does the same for a new file. Throws Error if `path` exists by then: one of two writers
/// succeeds.
void create_file(const std::filesystem::path& path, std::string_view bytes);

/// As ::rename(), but by a link, which replaces no file that appeared meanwhile (EEXIST).
int publish_file(const char* temporary, const char* path);

/// Throws Error if replace_file() could not write `path`: its folder is not writable, or `path` is
/// not a file. Leaves no file behind.
void require_replaceable(const std::filesystem::path& path);

/// `path`.tmp-<host>-<pid>-<8 digits of the process space><8 random digits>. Each call returns
/// another name.
std::filesystem::path temporary_name(const std::filesystem::path& path);

/// Removes the temporaries in `directory` of files whose names end with `ending` (".h5"), if their
/// writer is gone: a dead process of this process space, this process itself, or a process
/// elsewhere whose temporary was not touched for a day. Clocks that are set an hour ahead remove
/// nothing of a living process.
void remove_stale_temporaries(const std::filesystem::path& directory, std::string_view ending = {});

/// Creates `directory` and its missing parents; they survive a power failure. Returns the created
/// ones, the innermost first. `purpose` is for the message: "checkpoint directory".
std::vector<std::filesystem::path> make_directories(const std::filesystem::path& directory,
                                                    std::string_view purpose);

/// make_directories(), and throws Error unless a file can be created in `directory`.
std::vector<std::filesystem::path> require_writable_directory(
    const std::filesystem::path& directory, std::string_view purpose);

}  // namespace lockstep
