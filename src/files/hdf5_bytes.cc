#include "src/files/hdf5_bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <utility>

#include "src/base/check.h"
#include "src/files/hdf5_id.h"

namespace lockstep {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they are");

hid_t type_of(std::uint64_t width) {
  if (width == 1) return H5T_STD_U8LE;
  return width == 4 ? H5T_STD_U32LE : H5T_STD_U64LE;
}

}  // namespace

Hdf5BytesWriter::Hdf5BytesWriter(std::filesystem::path path, std::vector<BytesArray> arrays)
    : path_(std::move(path)), temporary_(temporary_name(path_)) {
  std::error_code unknown;
  require(!std::filesystem::exists(path_, unknown), "{} exists already. Choose another name.",
          path_.string());
  require_replaceable(path_);
  const std::string kind = path_.extension().string();  // writers that were killed left such files
  remove_stale_temporaries(path_.has_parent_path() ? path_.parent_path() : ".",
                           kind.empty() ? path_.filename().string() : kind);
  for (BytesArray& array : arrays) arrays_[array.name] = std::move(array);
  try {
    lay_out();
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CLOEXEC);
    struct stat status {};
    if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) fail_to("open", temporary_, errno);
    // HDF5 has only set the size, so the file is sparse. This call reserves its blocks. Other
    // errors mean that the file system cannot reserve any: then append() reports a full disk.
    const int error = ::posix_fallocate(descriptor_, 0, status.st_size);
    if (error == ENOSPC || error == EFBIG) fail_to("write", path_, error);
  } catch (...) {
    ::unlink(temporary_.c_str());
    if (descriptor_ >= 0) ::close(descriptor_);
    throw;
  }
}

Hdf5BytesWriter::~Hdf5BytesWriter() {
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

// HDF5 writes only the description of the arrays. It fixes the place of each at once (EARLY) and
// fills none with zeros (NEVER). So the numbers need no call of HDF5, whose lock would let one
// thread work at a time.
void Hdf5BytesWriter::lay_out() {
  const auto lock = lock_hdf5();
  keep_hdf5_quiet();
  const auto check = [&](auto result) {
    if (result < 0)
      fail("cannot write {}: {}; choose another directory", path_.string(), hdf5_cause());
    return result;
  };
  const Hdf5Id access(check(H5Pcreate(H5P_FILE_ACCESS)));
  check(H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110));
  const Hdf5Id root(check(H5Pcreate(H5P_FILE_CREATE))), groups(check(H5Pcreate(H5P_GROUP_CREATE))),
      creation(check(H5Pcreate(H5P_DATASET_CREATE)));
  // Without times the same images make the same file.
  for (const hid_t object : {hid_t{root}, hid_t{groups}, hid_t{creation}})
    check(H5Pset_obj_track_times(object, false));
  Hdf5Id file(check(H5Fcreate(temporary_.c_str(), H5F_ACC_EXCL, root, access)));
  check(H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY));
  check(H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER));
  for (auto& [name, array] : arrays_) {
    const hsize_t count = array.count;
    const Hdf5Id space(check(H5Screate_simple(1, &count, nullptr)));
    const std::string group = name.substr(0, name.find('/'));
    if (group != name && check(H5Lexists(file, group.c_str(), H5P_DEFAULT)) == 0)
      Hdf5Id(check(H5Gcreate2(file, group.c_str(), H5P_DEFAULT, groups, H5P_DEFAULT)));
    const Hdf5Id set(check(H5Dcreate2(file, name.c_str(), type_of(array.width), space, H5P_DEFAULT,
                                      creation, H5P_DEFAULT)));
    if (count == 0) continue;
    // An empty array has no place.
    const haddr_t offset = H5Dget_offset(set);
    require(offset != HADDR_UNDEF, "cannot write {}: HDF5 reserves no space", path_.string());
    array.offset = offset;
  }
  check(H5Fclose(file.release()));
}

void Hdf5BytesWriter::append(const std::string& name, std::span<const std::uint8_t> bytes) {
  const BytesArray& array = arrays_.at(name);
  std::uint64_t& at = written_[name];
  expect(bytes.size() <= array.bytes() - at, "more bytes than the array has");
  while (!bytes.empty()) {
    const ssize_t done = ::pwrite(descriptor_, bytes.data(), bytes.size(), array.offset + at);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail_to("write", path_, errno);
    at += done;
    bytes = bytes.subspan(done);
  }
}

void Hdf5BytesWriter::commit() {
  for (const auto& [name, array] : arrays_)
    expect(written_[name] == array.bytes(), "an array is not complete");
  if (::fsync(descriptor_) != 0 && errno != EINVAL) fail_to("write", path_, errno);
  // The file gets its name only after a reader has accepted it.
  const Hdf5BytesReader readable(temporary_);
  if (publish_file(temporary_.c_str(), path_.c_str()) != 0) fail_to("write", path_, errno);
  sync_directory(path_.parent_path());
}

Hdf5BytesReader::Hdf5BytesReader(std::filesystem::path path) : file_(std::move(path)) {
  const auto refuse = [&](const std::string& why) {
    fail("{} is damaged or no file of pack_images: {}. Use another file.", this->path().string(),
         why);
  };
  const auto check = [&](auto result) {
    if (result >= 0) return;
    require_hdf5_read(this->path());
    refuse(hdf5_cause());
  };
  const std::uint64_t bytes = file_.size();
  const auto lock = lock_hdf5();
  std::string cause;
  const Hdf5Id file = open_hdf5(this->path(), cause);
  if (file < 0) refuse(cause);
  Hdf5Objects objects;
  check(list_hdf5_objects(file, objects));
  for (const std::string& name : objects.arrays) {
    const Hdf5Id set(H5Dopen2(file, name.c_str(), H5P_DEFAULT));
    check(static_cast<hid_t>(set));
    const Hdf5Id space(H5Dget_space(set)), type(H5Dget_type(set)),
        creation(H5Dget_create_plist(set));
    hsize_t count = 0;
    if (H5Sget_simple_extent_ndims(space) != 1 ||
        H5Sget_simple_extent_dims(space, &count, nullptr) < 0 ||
        H5Pget_layout(creation) != H5D_CONTIGUOUS || !lies_in_file(creation))
      refuse(fmt::format("array {} is stored otherwise", name));
    BytesArray array{name, count, H5Tget_size(type), 0};
    if ((array.width != 1 && array.width != 4 && array.width != 8) ||
        H5Tequal(type, type_of(array.width)) <= 0)
      refuse(fmt::format("array {} has numbers of another type", name));
    if (count > 0) array.offset = H5Dget_offset(set);
    // Both come from the file. The first check keeps the product of the second within 64 bits.
    if (count > bytes / array.width || array.offset > bytes - array.bytes())
      refuse(fmt::format("array {} does not lie in the file", name));
    arrays_[name] = array;
  }
}

const BytesArray& Hdf5BytesReader::array(const std::string& name, std::uint64_t width) const {
  const auto found = arrays_.find(name);
  require(found != arrays_.end() && found->second.width == width,
          "{} has no array {} of {}-byte numbers. Use a file that pack_images wrote.",
          path().string(), name, width);
  return found->second;
}

void Hdf5BytesReader::read(const BytesArray& array, std::uint64_t begin,
                           std::span<std::uint8_t> to) const {
  expect(begin <= array.bytes() && to.size() <= array.bytes() - begin, "bytes within the array");
  file_.read(array.offset + begin, {reinterpret_cast<char*>(to.data()), to.size()});
}

}  // namespace lockstep
