// Writing HDF5 files.
//
// HDF5 builds the whole file in memory (its "core" driver without a backing file), and
// replace_file() writes the bytes. So a full disk is an ordinary error of write(2). On a file of
// its own, HDF5 keeps dirty pages after a failed write. Then it cannot flush or close the file, and
// it fails again when the process ends.
//
// The format is that of HDF5 1.10, which checksums all metadata. In the older default format a
// flipped bit in a chunk index would turn data into zeros without an error.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "src/base/check.h"
#include "src/base/round_up.h"
#include "src/files/file.h"
#include "src/files/hdf5.h"
#include "src/files/hdf5_id.h"

namespace lockstep {
namespace {

/// Extents of the chunks, each with its own checksum: the whole array, or equal parts of at most
/// about 1 MiB.
std::array<hsize_t, Shape::kMaxRank> chunk_of(const Shape& shape) {
  constexpr std::int64_t kElements = (1 << 20) / sizeof(float);
  std::array<hsize_t, Shape::kMaxRank> chunk{};
  std::int64_t count = shape.count();
  for (int axis = 0; axis < shape.rank(); ++axis) {
    // The first axes are cut first. So a chunk is mostly one piece of the array's memory.
    const std::int64_t cuts = std::clamp<std::int64_t>(ceil_div(count, kElements), 1, shape[axis]);
    const std::int64_t extent = ceil_div(shape[axis], cuts);
    count = count / shape[axis] * extent;
    chunk[axis] = extent;
  }
  return chunk;
}

}  // namespace

struct Hdf5Writer::Body {
  std::filesystem::path path;
  void* image = nullptr;  // HDF5 allocates it, and this class frees it
  hid_t file = -1;

  ~Body() {
    const auto lock = lock_hdf5();
    if (file >= 0) H5Fclose(file);
    std::free(image);
  }

  template <class Result>
  Result check(Result result) const {
    if (result < 0) {
      fail("cannot write {}: {}; free some memory", path.string(), hdf5_cause());
    }
    return result;
  }
};

Hdf5Writer::Hdf5Writer(std::filesystem::path path) : body_(std::make_unique<Body>()) {
  const auto lock = lock_hdf5();
  keep_hdf5_quiet();
  Body& body = *body_;
  body.path = std::move(path);
  const Hdf5Id access(body.check(H5Pcreate(H5P_FILE_ACCESS)));
  body.check(H5Pset_fapl_core(access, 1 << 20, /*backing_store=*/false));
  body.check(H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110));
  // Not H5Fget_file_image: readers refuse its copy, which is marked as open for writing.
  H5FD_file_image_callbacks_t callbacks{};
  // HDF5 grows the image by this callback, which notes where it lies. It would free the image when
  // the file is closed, so image_free does nothing. The image outlives the file that way.
  callbacks.image_realloc = [](void* old, size_t bytes, H5FD_file_image_op_t,
                               void* image) -> void* {
    void* grown = std::realloc(old, bytes);
    if (grown) *static_cast<void**>(image) = grown;
    return grown;
  };
  callbacks.image_free = [](void*, H5FD_file_image_op_t, void*) -> herr_t { return 0; };
  callbacks.udata_copy = [](void* image) { return image; };
  callbacks.udata_free = [](void*) -> herr_t { return 0; };
  callbacks.udata = &body.image;
  body.check(H5Pset_file_image_callbacks(access, &callbacks));
  // HDF5 would read the whole file if one with this name existed.
  const std::string name = temporary_name(body.path).string() + "-image";
  body.file = body.check(H5Fcreate(name.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access));
}

Hdf5Writer::~Hdf5Writer() = default;

void Hdf5Writer::array(const std::string& name, const Shape& shape, std::span<const float> values) {
  const auto lock = lock_hdf5();
  const Body& body = *body_;
  expect(shape.rank() > 0, "an array in a file has at least one extent");
  expect(shape.count() == std::ssize(values), "values do not fit their shape");
  std::array<hsize_t, Shape::kMaxRank> extents{};
  for (int axis = 0; axis < shape.rank(); ++axis) extents[axis] = shape[axis];
  const Hdf5Id space(body.check(H5Screate_simple(shape.rank(), extents.data(), nullptr)));
  const Hdf5Id links(body.check(H5Pcreate(H5P_LINK_CREATE)));
  body.check(H5Pset_create_intermediate_group(links, 1));
  const Hdf5Id creation(body.check(H5Pcreate(H5P_DATASET_CREATE)));
  if (!values.empty()) {  // HDF5 has no empty chunks
    body.check(H5Pset_chunk(creation, shape.rank(), chunk_of(shape).data()));
    body.check(H5Pset_fletcher32(creation));
  }
  const Hdf5Id set(body.check(
      H5Dcreate2(body.file, name.c_str(), H5T_IEEE_F32LE, space, links, creation, H5P_DEFAULT)));
  if (!values.empty()) {
    body.check(H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
  }
}

void Hdf5Writer::attribute(const std::string& name, const Hdf5Attribute& value) {
  const auto lock = lock_hdf5();
  const Body& body = *body_;
  const Hdf5Id space(body.check(H5Screate(H5S_SCALAR)));
  const auto write = [&](hid_t stored, hid_t given, const void* data) {
    const Hdf5Id attribute(
        body.check(H5Acreate2(body.file, name.c_str(), stored, space, H5P_DEFAULT, H5P_DEFAULT)));
    body.check(H5Awrite(attribute, given, data));
  };
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    write(H5T_STD_I64LE, H5T_NATIVE_INT64, integer);
  } else if (const auto* natural = std::get_if<std::uint64_t>(&value)) {
    write(H5T_STD_U64LE, H5T_NATIVE_UINT64, natural);
  } else {
    // Text of fixed length, because HDF5 has no checksum for text of variable length.
    const std::string& text = std::get<std::string>(value);
    expect(text.find('\0') == std::string::npos, "a NUL character in an attribute");
    const Hdf5Id type(body.check(H5Tcopy(H5T_C_S1)));
    body.check(H5Tset_size(type, text.size() + 1));
    body.check(H5Tset_cset(type, H5T_CSET_UTF8));
    write(type, type, text.c_str());
  }
}

void Hdf5Writer::commit() {
  auto lock = lock_hdf5();
  Body& body = *body_;
  // The image is complete only after the flush, and its size is known only before the close. Its
  // memory may be larger, because it grows in steps.
  body.check(H5Fflush(body.file, H5F_SCOPE_GLOBAL));
  const ssize_t bytes = body.check(H5Fget_file_image(body.file, nullptr, 0));  // only the size
  body.check(H5Fclose(std::exchange(body.file, -1)));
  lock.unlock();  // the disk may be slow
  replace_file(body.path, {static_cast<const char*>(body.image), static_cast<std::size_t>(bytes)});
  std::free(std::exchange(body.image, nullptr));
}

}  // namespace lockstep
