// Output files. Every error names the file, the system's reason and the fix.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace lockstep {

/// The fix for `error`, an errno of a file or a folder: the end of a message.
std::string_view cure(int error);

/// A file that is open for writing at its end. Calls throw Error. One thread.
class OutputFile {
 public:
  enum class Mode {
    append,   ///< keeps the contents of an existing file
    extend,   ///< the same, but the file must exist
    replace,  ///< begins empty
    create,   ///< nothing of that name may exist, not even a link
  };
  /// Never waits for the reader of a pipe. It throws if there is none, and write() throws if the
  /// pipe is full.
  OutputFile(std::filesystem::path path, Mode mode);
  ~OutputFile();  ///< closes, without errors; call sync() and close() for them
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

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

/// Does the same for a new file. Throws Error if `path` exists by then: of two writers one
/// succeeds.
void create_file(const std::filesystem::path& path, std::string_view bytes);

/// Gives the complete file `temporary` the new name `path` and syncs the directory. Throws Error if
/// `path` exists. `temporary` may keep its name.
void publish_file(const std::filesystem::path& temporary, const std::filesystem::path& path);

/// Throws Error if replace_file() could not write `path`: its folder is not writable, or `path` is
/// not a file. Leaves no file behind.
void require_replaceable(const std::filesystem::path& path);

/// `path`.tmp-<host>-<pid>-<16 random digits>. Each call returns another name.
std::filesystem::path temporary_name(const std::filesystem::path& path);

/// Removes the temporaries in `directory` of files whose names begin with `prefix`, if their writer
/// is gone: a dead process of this host, this process itself, or a process of another host whose
/// temporary was not touched for an hour. With an `ending` (".h5") their names also end with it,
/// and the temporary has its random digits.
void remove_stale_temporaries(const std::filesystem::path& directory, std::string_view prefix,
                              std::string_view ending = {});

/// Creates `directory` and its missing parents; they survive a power failure. Returns the created
/// ones, the innermost first. `purpose` is for the message: "checkpoint directory".
std::vector<std::filesystem::path> make_directories(const std::filesystem::path& directory,
                                                    std::string_view purpose);

/// The folder for results that take time to compute again: $XDG_CACHE_HOME/lockstep if that path is
/// absolute, else ~/.cache/lockstep. Empty: HOME is not set either.
std::filesystem::path cache_folder();

/// make_directories(), and throws Error unless a file can be created in `directory`.
std::vector<std::filesystem::path> require_writable_directory(
    const std::filesystem::path& directory, std::string_view purpose);

}  // namespace lockstep
