// HDF5 files: bitwise identical round trips, and errors for damage of every kind.
#include "src/files/hdf5.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/file.h>
#include <unistd.h>

#include <bit>
#include <limits>
#include <numeric>

#include "src/base/random.h"
#include "src/files/hdf5_bytes.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"

/// HDF5 1.10 itself leaks memory if the header of an object is damaged. These tests do not report
/// it.
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5"; }

namespace lockstep {
namespace {

std::vector<std::uint32_t> bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> result;
  for (const float value : values) result.push_back(std::bit_cast<std::uint32_t>(value));
  return result;
}

std::vector<float> ramp(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.5f);
  return values;
}

std::vector<float> read(const Hdf5Reader& reader, const std::string& name) {
  std::vector<float> values(reader.shape(name).count(), -1.0f);
  reader.array(name, values);
  return values;
}

/// The whole contents of a file as text, to compare two states.
std::string all_of(const std::filesystem::path& file) {
  const Hdf5Reader reader(file);
  std::string text;
  for (const std::string& name : reader.arrays()) {
    text += name + " " + reader.shape(name).text();
    for (const std::uint32_t word : bits(read(reader, name))) text += fmt::format(" {:08x}", word);
    text += "\n";
  }
  for (const auto& [name, value] : reader.attributes()) {
    text += name + " = ";
    std::visit([&](const auto& held) { text += fmt::format("{}\n", held); }, value);
  }
  return text;
}

class Hdf5 : public testing::Test {
 protected:
  /// A small file with one of everything.
  static void write_small(const std::filesystem::path& file) {
    Hdf5Writer writer(file);
    writer.array("parameters/conv1/weights", {2, 3}, ramp(6));
    writer.array("parameters/conv1/biases", {2}, ramp(2));
    writer.array("ema/empty", {0}, {});
    writer.attribute("step", std::int64_t{12345});
    writer.attribute("seed", std::uint64_t{1} << 63);
    writer.attribute("options", "--steps 10");
    writer.commit();
  }

  const TemporaryDirectory directory_;
  const std::filesystem::path file_ = directory_ / "a.h5";
};

TEST_F(Hdf5, FloatsComeBackBitForBit) {
  std::vector<float> values = {0.0f,
                               -0.0f,
                               1.0f,
                               std::numeric_limits<float>::denorm_min(),
                               -1e-40f,
                               std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::max(),
                               std::numeric_limits<float>::min()};
  for (const std::uint32_t word :
       {0x7fc00000u, 0xffc12345u, 0x7f800001u, 0xff80dead}) {  // NaNs, quiet and signalling
    values.push_back(std::bit_cast<float>(word));
  }
  Hdf5Writer writer(file_);
  writer.array("group/sub/values", {static_cast<std::int64_t>(values.size())}, values);
  writer.commit();
  const Hdf5Reader reader(file_);
  EXPECT_EQ(bits(read(reader, "group/sub/values")), bits(values));
}

TEST_F(Hdf5, ShapesFromEmptyToSeveralPieces) {
  const std::vector<Shape> shapes = {
      {0},      {1},         {7},         {3, 0, 2},         {2, 3, 5, 7},
      {600000}, {3, 400000}, {1000, 700}, {1, 1, 300001, 2}, {2, 2, 2, 131073},
      {262144}, {262145}};
  Hdf5Writer writer(file_);
  for (const Shape& shape : shapes) {
    writer.array("x/" + shape.text(), shape, ramp(shape.count()));
  }
  writer.commit();
  const Hdf5Reader reader(file_);
  EXPECT_EQ(reader.arrays().size(), shapes.size());
  for (const Shape& shape : shapes) {
    const std::string name = "x/" + shape.text();
    ASSERT_TRUE(reader.has(name)) << name;
    EXPECT_EQ(reader.shape(name), shape);
    EXPECT_EQ(read(reader, name), ramp(shape.count())) << name;
  }
  reader.verify();
}

TEST_F(Hdf5, AttributesKeepTypeAndValue) {
  const std::string options(100000, 'o');
  Hdf5Writer writer(file_);
  writer.attribute("smallest", std::numeric_limits<std::int64_t>::min());
  writer.attribute("seed", std::numeric_limits<std::uint64_t>::max());
  writer.attribute("empty", "");
  writer.attribute("utf8", "Zürich 零");
  writer.attribute("options", options);
  for (int i = 0; i < 20; ++i) writer.attribute("many" + std::to_string(i), std::int64_t{i});
  writer.commit();
  const Hdf5Reader reader(file_);
  EXPECT_EQ(reader.integer("smallest"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(reader.unsigned_integer("seed"), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(reader.text("empty"), "");
  EXPECT_EQ(reader.text("utf8"), "Zürich 零");
  EXPECT_EQ(reader.text("options"), options);
  EXPECT_EQ(reader.integer("many19"), 19);
  EXPECT_EQ(reader.attributes().size(), 25u);
  expect_error({"no attribute 'nothing'"}, [&] { reader.integer("nothing"); });
  expect_error({"'seed' is not a signed integer"}, [&] { reader.integer("seed"); });
}

/// The number of open files of this process.
std::ptrdiff_t open_files() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

TEST_F(Hdf5, AFlippedBitIsAnErrorOrHarmless) {
  write_small(file_);
  const std::string whole = contents(file_), truth = all_of(file_);
  const std::ptrdiff_t open = open_files();
  int errors = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
    put(file_, damaged);
    try {
      EXPECT_EQ(all_of(file_), truth) << "byte " << i << " of " << whole.size();
    } catch (const Error& error) {
      ++errors;
      EXPECT_TRUE(mentions(std::string(error.what()), {file_.string()})) << error.what();
    }
  }
  EXPECT_EQ(open_files(), open) << "damaged files are closed";
  EXPECT_GT(errors, 6 * 4) << "at least the values of the array";
}

TEST_F(Hdf5, EveryTruncationIsAnError) {
  write_small(file_);
  const std::string whole = contents(file_);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    put(file_, whole.substr(0, size));
    EXPECT_TRUE(mentions(error_of([&] { all_of(file_); }), {file_.string()})) << size;
  }
}

/// A file as other programs can make it, by HDF5's own calls.
class Foreign {
 public:
  /// `exists`: the file gets more.
  explicit Foreign(const std::filesystem::path& file, bool exists = false)
      : file_(exists ? H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT)
                     : H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)) {}
  ~Foreign() { H5Fclose(file_); }
  hid_t id() const { return file_; }

  using Store = std::function<void(hid_t creation, hid_t space)>;
  /// `values`: null: the array is not written. `store` may change how it is stored.
  void array(
      const std::string& name, const std::vector<hsize_t>& shape, const float* values = nullptr,
      hid_t type = H5T_IEEE_F32LE, const Store& store = [](hid_t, hid_t) {}) const {
    const hid_t space = H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr),
                creation = H5Pcreate(H5P_DATASET_CREATE), links = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(links, 1);
    store(creation, space);
    const hid_t set = H5Dcreate2(file_, name.c_str(), type, space, links, creation, H5P_DEFAULT);
    EXPECT_GE(set, 0);
    if (values != nullptr) H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
    H5Dclose(set);
    H5Pclose(links);
    H5Pclose(creation);
    H5Sclose(space);
  }

 private:
  hid_t file_;
};

TEST_F(Hdf5, OnlyHardLinksAreFollowedAndNoCycle) {
  const std::filesystem::path other = directory_ / "b.h5";
  write_small(other);
  write_small(file_);
  const hid_t id = H5Fopen(file_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  H5Lcreate_hard(id, "/parameters", id, "/parameters/circle", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_hard(id, "/parameters", id, "/parameters/round", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_hard(id, "/", id, "/ema/root", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_soft("/parameters/conv1/biases", id, "/soft", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_soft("/nowhere", id, "/dangling", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_external(other.c_str(), "/parameters", id, "/external", H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(id);
  const Hdf5Reader reader(file_);
  reader.verify();
  EXPECT_EQ(reader.arrays().size(), 3u) << fmt::format("{}", fmt::join(reader.arrays(), " "));
  EXPECT_FALSE(reader.has("soft") || reader.has("external/conv1/biases"));
}

/// A file could otherwise show the bytes of any other file of the host.
TEST_F(Hdf5, NumbersInOtherFilesAreErrors) {
  const std::filesystem::path secret = directory_ / "secret";
  put(secret, std::string(24, 's'));
  write_small(directory_ / "whole.h5");
  for (const hid_t type : {H5T_IEEE_F32LE, H5T_STD_U8LE, H5T_STD_I64LE}) {
    Foreign(file_).array("parameters/dense/weights", {6}, nullptr, type,
                         [&](hid_t creation, hid_t) {
                           H5Pset_external(creation, secret.c_str(), 0, 6 * H5Tget_size(type));
                         });
    expect_error({file_.string(), "parameters/dense/weights", "another file"},
                 [&] { Hdf5Reader reader(file_); });
    expect_error({file_.string(), "parameters/dense/weights"},
                 [&] { Hdf5BytesReader reader(file_); });
  }
  Foreign(file_).array("images", {6}, nullptr, H5T_IEEE_F32LE, [&](hid_t creation, hid_t space) {
    const hsize_t all[] = {2, 3};
    const hid_t source = H5Screate_simple(2, all, nullptr);
    H5Pset_virtual(creation, space, (directory_ / "whole.h5").c_str(), "/parameters/conv1/weights",
                   source);
    H5Sclose(source);
  });
  expect_error({"images", "another file"}, [&] { Hdf5Reader reader(file_); });
  expect_error({"images"}, [&] { Hdf5BytesReader reader(file_); });
}

TEST_F(Hdf5, VerifyingNeedsAChecksumOfEachArray) {
  write_small(file_);
  const std::vector<float> values = ramp(6);
  Foreign(file_, /*exists=*/true).array("parameters/x", {6}, values.data());
  const Hdf5Reader reader(file_);
  EXPECT_EQ(read(reader, "parameters/x"), values) << "data of other programs have none";
  expect_error({file_.string(), "parameters/x"}, [&] { reader.verify(); });
}

TEST_F(Hdf5, ShapesWithoutTheirNumbersAreErrors) {
  constexpr hsize_t kHuge = hsize_t{1} << 30;
  const std::vector<std::vector<hsize_t>> shapes = {
      {1000}, {kHuge, kHuge}, {kHuge, kHuge, 1, 1}, {kHuge * kHuge}, {3, kHuge, 5, 7}};
  for (const std::vector<hsize_t>& shape : shapes) {
    Foreign(file_).array("x", shape);
    EXPECT_EQ(error_of([&] { Hdf5Reader reader(file_); }),
              fmt::format("{} is damaged: it does not contain all of x; use another file",
                          file_.string()));
  }
}

TEST_F(Hdf5, TextsOfAnyLengthAreReadAndNumbersInListsAreSkipped) {
  {
    const Foreign foreign(file_);
    const auto attribute = [&](const char* name, hid_t type, hsize_t count, const void* value) {
      const hid_t space = H5Screate_simple(1, &count, nullptr);
      const hid_t id = H5Acreate2(foreign.id(), name, type, space, H5P_DEFAULT, H5P_DEFAULT);
      H5Awrite(id, type, value);
      H5Aclose(id);
      H5Sclose(space);
    };
    const hid_t text = H5Tcopy(H5T_C_S1);
    H5Tset_size(text, H5T_VARIABLE);
    const char *said = "as h5py writes it", *nothing = nullptr;
    attribute("said", text, 1, &said);
    attribute("nothing", text, 1, &nothing);
    const char* names[] = {"cat", "a dog", "fox"};
    attribute("names", text, 3, names);
    H5Tclose(text);
    const hid_t four = H5Tcopy(H5T_C_S1);
    H5Tset_size(four, 4);
    attribute("short names", four, 2, "cat\0dogs");
    H5Tclose(four);
    const std::vector<std::int64_t> many(1000, 7);
    attribute("many", H5T_NATIVE_INT64, many.size(), many.data());
  }
  const Hdf5Reader reader(file_);
  EXPECT_EQ(reader.text("said"), "as h5py writes it");
  EXPECT_EQ(reader.text("nothing"), "");
  EXPECT_EQ(reader.text("names"), "cat\na dog\nfox");
  EXPECT_EQ(reader.text("short names"), "cat\ndogs");
  EXPECT_FALSE(reader.attributes().contains("many"));
}

#if H5_VERSION_GE(1, 12, 1) || (H5_VERSION_GE(1, 10, 7) && !H5_VERSION_GE(1, 12, 0))
TEST_F(Hdf5, ReadsWithoutALock) {
  write_small(file_);
  const int locked = ::open(file_.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(locked, LOCK_EX | LOCK_NB), 0);
  EXPECT_NO_THROW(Hdf5Reader(file_).verify());
  ::close(locked);
}
#endif

TEST_F(Hdf5, AnotherKindOfFileIsAnError) {
  put(directory_ / "text", std::string(5000, 'x'));
  const std::string text = error_of([&] { Hdf5Reader reader(directory_ / "text"); });
  EXPECT_TRUE(mentions(text, {"signature"}));
  expect_error({"No such file"}, [&] { Hdf5Reader reader(directory_ / "none"); });
  expect_error({"not a file"}, [&] { Hdf5Reader reader(directory_.path()); });
}

TEST_F(Hdf5, NothingIsWrittenBeforeCommit) {
  write_small(file_);
  const std::string former = contents(file_);
  {
    Hdf5Writer writer(file_);
    writer.array("other", {3}, ramp(3));
    EXPECT_EQ(contents(file_), former);
  }
  EXPECT_EQ(contents(file_), former);
  EXPECT_EQ(directory_.names(), std::vector<std::string>{"a.h5"});
}

}  // namespace
}  // namespace lockstep
