#include "src/files/hdf5_bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "src/base/check.h"
#include "src/files/file.h"
#include "src/files/hdf5_id.h"

namespace lockstep {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they are");

[[noreturn]] void cannot(const char* what, const std::filesystem::path& path, int error) {
  fail("cannot {} {}: {}; {}", what, path.string(), std::strerror(error), cure(error));
}

hid_t type_of(std::uint64_t width) {
  return width == 1 ? H5T_STD_U8LE : width == 4 ? H5T_STD_U32LE : H5T_STD_U64LE;
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
                           kind.empty() ? path_.filename().string() + ".tmp-" : "", kind);
  for (BytesArray& array : arrays) arrays_[array.name] = std::move(array);
  try {
    lay_out();
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CLOEXEC);
    struct stat status {};
    if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) cannot("open", temporary_, errno);
    const int error = ::posix_fallocate(descriptor_, 0, status.st_size);
    if (error == ENOSPC || error == EFBIG) cannot("write", path_, error);
  } catch (...) {
    ::unlink(temporary_.c_str());
    if (descriptor_ >= 0) ::close(descriptor_);
    throw;
  }
}

Hdf5BytesWriter::~Hdf5BytesWriter() {
  ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void Hdf5BytesWriter::lay_out() {
  keep_hdf5_quiet();
  const auto check = [&](auto result) {
    if (result < 0)
      fail("cannot write {}: {}; choose another directory", path_.string(), hdf5_cause());
    return result;
  };
  const Hdf5Id access(check(H5Pcreate(H5P_FILE_ACCESS)));
  check(H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110));
  const Hdf5Id file(check(H5Fcreate(temporary_.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, access)));
  const Hdf5Id links(check(H5Pcreate(H5P_LINK_CREATE))),
      creation(check(H5Pcreate(H5P_DATASET_CREATE)));
  check(H5Pset_create_intermediate_group(links, 1));
  check(H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY));
  check(H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER));
  for (auto& [name, array] : arrays_) {
    const hsize_t count = array.count;
    const Hdf5Id space(check(H5Screate_simple(1, &count, nullptr)));
    const Hdf5Id set(check(
        H5Dcreate2(file, name.c_str(), type_of(array.width), space, links, creation, H5P_DEFAULT)));
    if (count == 0) continue;
    const haddr_t offset = H5Dget_offset(set);
    require(offset != HADDR_UNDEF, "cannot write {}: HDF5 reserves no space", path_.string());
    array.offset = offset;
  }
  check(H5Fflush(file, H5F_SCOPE_GLOBAL));
}

void Hdf5BytesWriter::append(const std::string& name, std::span<const std::uint8_t> bytes) {
  const BytesArray& array = arrays_.at(name);
  std::uint64_t& at = written_[name];
  expect(bytes.size() <= array.bytes() - at, "more bytes than the array has");
  while (!bytes.empty()) {
    const ssize_t done =
        ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(array.offset + at));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) cannot("write", path_, errno);
    at += static_cast<std::uint64_t>(done);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

void Hdf5BytesWriter::commit() {
  for (const auto& [name, array] : arrays_)
    expect(written_[name] == array.bytes(), "an array is not complete");
  if (::fsync(descriptor_) != 0 && errno != EINVAL) cannot("write", path_, errno);
  publish_file(temporary_, path_);
}

Hdf5BytesReader::Hdf5BytesReader(std::filesystem::path path) : path_(std::move(path)) {
  keep_hdf5_quiet();
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  require(descriptor_ >= 0, "cannot open {}: {}. Check its name and its permissions.",
          path_.string(), std::strerror(errno));
  struct stat status {};
  const auto refuse = [&](const std::string& why) {
    ::close(descriptor_);
    fail("{} is damaged or no file of pack_images: {}. Use another file.", path_.string(), why);
  };
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) refuse("it is not a file");
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  const Hdf5Id file(H5Fopen(path_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  if (file < 0) refuse(hdf5_cause());
  const auto visit = [](hid_t, const char* name, const auto* info, void* out) -> herr_t {
    if (info->type == H5O_TYPE_DATASET)
      static_cast<std::vector<std::string>*>(out)->push_back(name);
    return 0;
  };
  std::vector<std::string> names;
#if H5_VERSION_GE(1, 12, 0)
  const herr_t visited = H5Ovisit3(file, H5_INDEX_NAME, H5_ITER_INC, visit, &names, H5O_INFO_BASIC);
#else
  const herr_t visited = H5Ovisit(file, H5_INDEX_NAME, H5_ITER_INC, visit, &names);
#endif
  if (visited < 0) refuse(hdf5_cause());
  for (const std::string& name : names) {
    const Hdf5Id set(H5Dopen2(file, name.c_str(), H5P_DEFAULT));
    if (set < 0) refuse(hdf5_cause());
    const Hdf5Id space(H5Dget_space(set)), type(H5Dget_type(set)),
        creation(H5Dget_create_plist(set));
    hsize_t count = 0;
    if (H5Sget_simple_extent_ndims(space) != 1 ||
        H5Sget_simple_extent_dims(space, &count, nullptr) < 0 ||
        H5Pget_layout(creation) != H5D_CONTIGUOUS || H5Pget_external_count(creation) != 0)
      refuse(fmt::format("array {} is stored otherwise", name));
    BytesArray array{name, count, H5Tget_size(type), 0};
    if ((array.width != 1 && array.width != 4 && array.width != 8) ||
        H5Tequal(type, type_of(array.width)) <= 0)
      refuse(fmt::format("array {} has numbers of another type", name));
    if (count > 0) array.offset = H5Dget_offset(set);
    if (count > bytes / array.width || array.offset > bytes - array.bytes())
      refuse(fmt::format("array {} does not lie in the file", name));
    arrays_[name] = array;
  }
}

Hdf5BytesReader::~Hdf5BytesReader() { ::close(descriptor_); }

const BytesArray& Hdf5BytesReader::array(const std::string& name, std::uint64_t width) const {
  const auto found = arrays_.find(name);
  require(found != arrays_.end() && found->second.width == width,
          "{} has no array {} of {}-byte numbers. Use a file that pack_images wrote.",
          path_.string(), name, width);
  return found->second;
}

void Hdf5BytesReader::read(const BytesArray& array, std::uint64_t begin,
                           std::span<std::uint8_t> to) const {
  expect(begin <= array.bytes() && to.size() <= array.bytes() - begin, "bytes within the array");
  while (!to.empty()) {
    const ssize_t got =
        ::pread(descriptor_, to.data(), to.size(), static_cast<off_t>(array.offset + begin));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) cannot("read", path_, errno);
    require(got > 0, "{} was cut during the run. Restore it.", path_.string());
    begin += static_cast<std::uint64_t>(got);
    to = to.subspan(static_cast<std::size_t>(got));
  }
}

}  // namespace lockstep
