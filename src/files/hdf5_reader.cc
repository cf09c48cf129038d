// Reading HDF5 files. The constructor reads all names, shapes and attributes; array() reads
// numbers.
#include <algorithm>
#include <array>
#include <set>

#include "src/base/check.h"
#include "src/files/file.h"
#include "src/files/hdf5.h"
#include "src/files/hdf5_id.h"

namespace lockstep {

struct Hdf5Reader::Body {
  std::filesystem::path path;
  Hdf5Id file{-1};
  std::uint64_t bytes = 0;  // of the file
  std::map<std::string, Shape> arrays;
  std::string foreign;            // foreign_part()
  std::set<std::string> checked;  // arrays with checksums
  std::map<std::string, Hdf5Attribute> attributes;

  ~Body() {
    const auto lock = lock_hdf5();
    file = Hdf5Id(-1);
  }
  [[noreturn]] void fail_damaged(const std::string& cause) const {
    fail("{} is damaged or not an HDF5 file: {}; use another file", path.string(), cause);
  }
  template <class Result>
  Result check(Result result, const std::string& what = "") const {
    if (result < 0) {
      // Only what is left after this check is damage. A lack of memory or a busy file must not look
      // like it.
      require_hdf5_read(path);
      fail_damaged(what + (what.empty() ? "" : ": ") + hdf5_cause());
    }
    return result;
  }

  void list();
  Shape shape_of(hid_t set, const std::string& name);
  void list_attributes();
  std::vector<std::string> texts_of(hid_t attribute, hid_t type, hssize_t count,
                                    const std::string& name) const;
  void read_attribute(const std::string& name);

  template <class T>
  const T& attribute(const std::string& name, const char* kind) const {
    const auto found = attributes.find(name);
    require(found != attributes.end(),
            "{} has no attribute '{}' and was not written by Lockstep; use another file",
            path.string(), name);
    const T* value = std::get_if<T>(&found->second);
    require(value, "{}: attribute '{}' is not {}; use another file", path.string(), name, kind);
    return *value;
  }
  const Shape& shape(const std::string& name) const {
    const auto found = arrays.find(name);
    require(found != arrays.end(), "{} has no array '{}'; use another file", path.string(), name);
    return found->second;
  }
};

void Hdf5Reader::Body::list() {
  Hdf5Objects objects;
  check(list_hdf5_objects(file, objects));
  for (const std::string& name : objects.arrays) {
    arrays[name] = shape_of(Hdf5Id(check(H5Dopen2(file, name.c_str(), H5P_DEFAULT), name)), name);
  }
  for (const std::string& name : objects.others) {
    // Groups around an array are part of its name. Any other entry here is foreign: a type, an
    // empty group, or attributes of an object.
    const auto inside = arrays.lower_bound(name + "/");
    if (inside == arrays.end() || !inside->first.starts_with(name + "/")) foreign = name;
  }
}

/// Throws Error if the file does not contain all numbers of that shape.
/// The caller allocates memory for the shape, which a damaged file can make as large as it likes.
/// So the bytes that the file stores for the array limit it.
Shape Hdf5Reader::Body::shape_of(hid_t set, const std::string& name) {
  const Hdf5Id space(check(H5Dget_space(set), name));
  const int rank = check(H5Sget_simple_extent_ndims(space), name);
  std::array<hsize_t, H5S_MAX_RANK> n{};
  check(H5Sget_simple_extent_dims(space, n.data(), nullptr), name);
  if (rank > Shape::kMaxRank) {
    fail("{}: {} has {} extents, but the limit is {}; use another file", path.string(), name, rank,
         Shape::kMaxRank);
  }
  const Hdf5Id creation(check(H5Dget_create_plist(set), name));
  require(lies_in_file(creation), "{}: {} lies in another file; use a file that contains it",
          path.string(), name);
  // The storage size of a compressed array does not tell how many numbers it contains.
  constexpr hsize_t kMostDeflated = 1032;  // zlib's largest ratio
  hsize_t ratio = 1;
  for (int i = 0; i < H5Pget_nfilters(creation); ++i) {
    unsigned flags = 0;
    std::size_t values = 0;
    const H5Z_filter_t filter =
        H5Pget_filter2(creation, i, &flags, &values, nullptr, 0, nullptr, nullptr);
    require(filter == H5Z_FILTER_FLETCHER32 || filter == H5Z_FILTER_SHUFFLE ||
                filter == H5Z_FILTER_DEFLATE,
            "{}: {} is compressed by another filter than gzip; write it without compression",
            path.string(), name);
    if (filter == H5Z_FILTER_DEFLATE) ratio = kMostDeflated;
    if (filter == H5Z_FILTER_FLETCHER32) checked.insert(name);
  }
  const Hdf5Id type(check(H5Dget_type(set), name));
  if (H5Tequal(type, H5T_IEEE_F32LE) <= 0) foreign = name + " in another type than fp32";
  const hsize_t held = std::min<hsize_t>(H5Dget_storage_size(set), bytes) * ratio /
                       std::max<std::size_t>(H5Tget_size(type), 1);
  const bool empty = std::find(n.begin(), n.begin() + rank, 0) != n.begin() + rank;
  hsize_t count = 1;
  for (int axis = 0; axis < rank && !empty; ++axis) {
    if (count > held / n[axis]) {
      fail("{} is damaged: it does not contain all of {}; use another file", path.string(), name);
    }
    count *= n[axis];
  }
  const auto extent = [&](int axis) { return static_cast<std::int64_t>(n[axis]); };
  const Shape shapes[] = {{},
                          {extent(0)},
                          {extent(0), extent(1)},
                          {extent(0), extent(1), extent(2)},
                          {extent(0), extent(1), extent(2), extent(3)}};
  return shapes[rank];
}

void Hdf5Reader::Body::list_attributes() {
  const auto collect = [](hid_t, const char* name, const H5A_info_t*, void* names) -> herr_t {
    static_cast<std::vector<std::string>*>(names)->push_back(name);
    return 0;
  };
  std::vector<std::string> names;
  check(H5Aiterate2(file, H5_INDEX_NAME, H5_ITER_INC, nullptr, collect, &names), "attributes");
  for (const std::string& name : names) {
    read_attribute(name);
    if (!attributes.contains(name)) foreign = "attribute " + name;
  }
}

std::vector<std::string> Hdf5Reader::Body::texts_of(hid_t attribute, hid_t type, hssize_t count,
                                                    const std::string& name) const {
  std::vector<std::string> texts;
  if (H5Tis_variable_str(type) > 0) {  // h5py writes these
    std::vector<char*> found(count);
    check(H5Aread(attribute, type, found.data()), name);
    for (char* text : found) {
      texts.emplace_back(text ? text : "");
      H5free_memory(text);
    }
    return texts;
  }
  const std::size_t size = H5Tget_size(type);
  std::string all(count * size, '\0');
  check(H5Aread(attribute, type, all.data()), name);
  for (std::size_t at = 0; at < all.size(); at += size)
    texts.emplace_back(all.substr(at, size).c_str());
  return texts;
}

void Hdf5Reader::Body::read_attribute(const std::string& name) {
  const Hdf5Id attribute(check(H5Aopen(file, name.c_str(), H5P_DEFAULT), name));
  const Hdf5Id type(check(H5Aget_type(attribute), name));
  const Hdf5Id space(check(H5Aget_space(attribute), name));
  const hssize_t count = H5Sget_simple_extent_npoints(space);
  if (count < 1 || (count > 1 && H5Tget_class(type) != H5T_STRING)) return;
  // The size comes from the file, and memory of that size is allocated below.
  if (H5Tget_size(type) > bytes / count)
    fail("{} is damaged: it does not contain all of {}; use another file", path.string(), name);
  const auto read = [&]<class T>(hid_t as, T value) {
    check(H5Aread(attribute, as, &value), name);
    return value;
  };
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      if (H5Tget_sign(type) == H5T_SGN_NONE) {
        attributes[name] = read(H5T_NATIVE_UINT64, std::uint64_t{});
      } else {
        attributes[name] = read(H5T_NATIVE_INT64, std::int64_t{});
      }
      break;
    case H5T_STRING:
      attributes[name] = fmt::format("{}", fmt::join(texts_of(attribute, type, count, name), "\n"));
      break;
    default:
      break;
  }
}

Hdf5Reader::Hdf5Reader(std::filesystem::path path) : body_(std::make_unique<Body>()) {
  const auto lock = lock_hdf5();
  body_->path = path;
  body_->bytes = InputFile(path).size();
  std::string cause;
  body_->file = open_hdf5(path, cause);
  if (body_->file < 0) body_->fail_damaged(cause);
  body_->list();
  body_->list_attributes();
}

Hdf5Reader::~Hdf5Reader() = default;

bool Hdf5Reader::has(const std::string& name) const { return body_->arrays.contains(name); }

std::vector<std::string> Hdf5Reader::arrays() const {
  std::vector<std::string> names;
  for (const auto& [name, shape] : body_->arrays) names.push_back(name);
  return names;
}

Shape Hdf5Reader::shape(const std::string& name) const { return body_->shape(name); }

std::vector<float> Hdf5Reader::values(const std::string& name) const {
  std::vector<float> result(shape(name).count());
  array(name, result);
  return result;
}

void Hdf5Reader::array(const std::string& name, std::span<float> values) const {
  const auto lock = lock_hdf5();
  const Shape& shape = body_->shape(name);
  expect(shape.count() == std::ssize(values), "values do not fit the array's shape");
  const Hdf5Id set(body_->check(H5Dopen2(body_->file, name.c_str(), H5P_DEFAULT), name));
  if (values.empty()) return;
  const H5T_class_t kind = H5Tget_class(Hdf5Id(body_->check(H5Dget_type(set), name)));
  require(kind == H5T_INTEGER || kind == H5T_FLOAT,
          "{}: {} contains {} instead of numbers; write integers", body_->path.string(), name,
          kind == H5T_STRING ? "text" : "other values");
  body_->check(H5Dread(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), name);
}

void Hdf5Reader::verify() const {
  std::vector<float> values;
  for (const auto& [name, shape] : body_->arrays) {
    require(shape.count() == 0 || body_->checked.contains(name),
            "{}: {} has no checksum, so Lockstep did not write it; use another file",
            body_->path.string(), name);
    // HDF5 compares the checksum of each chunk when it reads the chunk.
    values.resize(shape.count());
    array(name, values);
  }
}

std::string Hdf5Reader::foreign_part() const { return body_->foreign; }

const std::map<std::string, Hdf5Attribute>& Hdf5Reader::attributes() const {
  return body_->attributes;
}

std::int64_t Hdf5Reader::integer(const std::string& name) const {
  return body_->attribute<std::int64_t>(name, "a signed integer");
}
std::uint64_t Hdf5Reader::unsigned_integer(const std::string& name) const {
  return body_->attribute<std::uint64_t>(name, "an unsigned integer");
}
std::string Hdf5Reader::text(const std::string& name) const {
  return body_->attribute<std::string>(name, "text");
}

}  // namespace lockstep
