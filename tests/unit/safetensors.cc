// .safetensors files: numbers of every type, and hostile headers.
#include "src/files/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/expect_error.h"
#include "tests/support/files.h"
#include "tests/support/safetensors.h"

namespace lockstep {
namespace {

class Safetensors : public testing::Test {
 protected:
  std::string error(const std::string& header, const std::string& numbers = "12345678") {
    write_safetensors_text(file_, header, numbers);
    return error_of([&] { read_safetensors(file_); });
  }

  TemporaryDirectory folder_;
  std::filesystem::path file_ = folder_.path() / "weights.safetensors";
};

TEST_F(Safetensors, ReadsNumbersOfEveryFloatingPointType) {
  using namespace std::string_literals;
  // 1.5 and -2 as F16, BF16, F32 and F64.
  write_safetensors_text(file_,
                         R"({"__metadata__":{"format":"pt"},
          "half":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},
          "bfloat":{"dtype":"BF16","shape":[1,2],"data_offsets":[4,8]},
          "single":{"dtype":"F32","shape":[2,1],"data_offsets":[8,16]},
          "double":{"dtype":"F64","shape":[2],"data_offsets":[16,32]},
          "one":{"dtype":"F32","shape":[],"data_offsets":[8,12]},
          "none":{"dtype":"F32","shape":[0,7],"data_offsets":[0,0]},
          "count":{"dtype":"I64","shape":[1],"data_offsets":[16,24]}})",
                         "\x00\x3e\x00\xc0"s + "\xc0\x3f\x00\xc0"s +
                             "\x00\x00\xc0\x3f\x00\x00\x00\xc0"s +
                             "\x00\x00\x00\x00\x00\x00\xf8\x3f\x00\x00\x00\x00\x00\x00\x00\xc0"s);
  const TensorFile reader = read_safetensors(file_);
  EXPECT_EQ(reader.tensors().size(), 7u);
  const std::vector<float> values{1.5f, -2};
  for (const char* name : {"half", "bfloat", "single", "double"})
    EXPECT_EQ(reader.read(name), values) << name;
  EXPECT_EQ(reader.read("one"), std::vector<float>{1.5f});
  EXPECT_EQ(reader.read("none"), std::vector<float>{});
  EXPECT_EQ(reader.tensors().at("bfloat").shape, (std::vector<std::int64_t>{1, 2}));
  expect_error({"count", "I64", "F32"}, [&] { reader.read("count"); });
  expect_error({"other"}, [&] { reader.read("other"); });
}

TEST_F(Safetensors, RefusesHostileHeaders) {
  const auto tensor = [](const std::string& type, const std::string& shape,
                         const std::string& places) {
    return R"({"a":{"dtype":)" + type + R"(,"shape":)" + shape + R"(,"data_offsets":)" + places +
           "}}";
  };
  write_safetensors_text(file_, tensor("\"F32\"", "[2]", "[0,8]"), "12345678");
  EXPECT_NO_THROW(read_safetensors(file_));
  const std::string wrong[] = {
      tensor("\"F32\"", "[2]", "[0,9]"),
      tensor("\"F32\"", "[2]", "[4,12]"),
      tensor("\"F32\"", "[2]", "[8,0]"),
      tensor("\"F32\"", "[1]", "[0,8]"),
      tensor("\"F32\"", "[4294967296,4294967296]", "[0,0]"),
      tensor("\"F32\"", "[-2]", "[0,8]"),
      tensor("\"F32\"", "[2]", "[-8,0]"),
      tensor("\"F32\"", "[2]", "[18446744073709551608,0]"),
      tensor("\"F32\"", "[2]", "8"),
      tensor("\"F32\"", "[2.0]", "[0,8]"),
      tensor("\"F32\"", "2", "[0,8]"),
      tensor("\"F33\"", "[2]", "[0,8]"),
      tensor("7", "[2]", "[0,8]"),
      R"({"a":7})",
      R"({"a":{}})",
      "[]",
      "{",
      "",
  };
  for (const std::string& header : wrong)
    EXPECT_TRUE(mentions(error(header), {"weights.safetensors"})) << header;
  EXPECT_EQ(error(std::string(100'000, '[')).find('\n'), std::string::npos);
  EXPECT_EQ(error(R"({"a\n\u001b":7})").find('\n'), std::string::npos);
}

TEST_F(Safetensors, RefusesFilesThatAreTooShort) {
  for (const std::string& bytes : {std::string(), std::string("1234567"), std::string(8, '\xff'),
                                   std::string("\x09\0\0\0\0\0\0\0{}", 10)}) {
    std::ofstream(file_, std::ios::binary) << bytes;
    const bool known = bytes.empty() || bytes[0] == '1';  // an empty file, a text
    expect_error({"weights", known ? "not a .safetensors file" : "header"},
                 [&] { read_safetensors(file_); });
  }
  expect_error({"not a file"}, [&] { read_safetensors(folder_.path()); });
  EXPECT_NE(error_of([&] { read_safetensors(folder_.path() / "none"); }), "");
}

}  // namespace
}  // namespace lockstep
