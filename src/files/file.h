// Files that are written so that every failure is told: which file, what the system said, what
// helps.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace lockstep {

/// What helps against `error`, an errno of a file or a folder: the end of a message.
std::string_view cure(int error);

/// A file open for writing at its end. Calls throw Error. One thread.
class OutputFile {
 public:
  enum class Mode {
    append,   ///< goes on at the end of what is there
    extend,   ///< the same, and it must be there
    replace,  ///< begins empty
    create,   ///< must not be there yet, not even as a link to somewhere
  };
  /// Never waits for the reader of a pipe: without one it throws, and write() throws where a pipe
  /// is full.
  OutputFile(std::filesystem::path path, Mode mode);
  ~OutputFile();  ///< closes; what a caller must know comes from sync() and close()
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Writes all of `bytes`, or throws and takes back (from a file) what was written of them. Not
  /// buffered: when it returns, other processes see them.
  void write(std::string_view bytes);
  void sync();   ///< returns when the bytes have reached the disk
  void close();  ///< some file systems (NFS) report a full disk only here
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// Makes `path` hold `bytes`, as a whole or not at all, even if the power fails: writes
/// temporary_name(path), syncs it, renames it to `path` and syncs the directory. On failure the
/// temporary is removed and a former `path` is untouched.
void replace_file(const std::filesystem::path& path, std::string_view bytes);

/// Throws Error where replace_file() could put nothing at `path`: its folder takes no file, or what
/// is there is none. Leaves nothing there.
void require_replaceable(const std::filesystem::path& path);

/// `path`.tmp-<host>-<pid>-<16 random digits>: another name at every call.
std::filesystem::path temporary_name(const std::filesystem::path& path);

/// Removes temporaries in `directory` that were made for a file whose name begins with `prefix` and
/// whose writer is gone: a dead process of this host (this one has none under way when it calls),
/// or any of another host if it has not been touched for an hour.
void remove_stale_temporaries(const std::filesystem::path& directory, std::string_view prefix);

/// Makes `directory` and its parents as far as they are not there, each to last even if the power
/// fails. Returns those that it made, the innermost first. `purpose` is for the message.
std::vector<std::filesystem::path> make_directories(const std::filesystem::path& directory,
                                                    std::string_view purpose);

/// For what costs time to find out anew: $XDG_CACHE_HOME/lockstep (where that begins at the root:
/// what does not is to be ignored), or that of ~/.cache; empty where there is neither.
std::filesystem::path cache_folder();

/// make_directories(), and throws Error unless a file can be
/// made in it. `purpose` is for the message: "checkpoint directory".
std::vector<std::filesystem::path> require_writable_directory(
    const std::filesystem::path& directory, std::string_view purpose);

}  // namespace lockstep
