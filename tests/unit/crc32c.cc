// CRC-32C by instruction and by table, for any length and alignment.
#include "src/base/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep {
namespace {

TEST(Crc32c, KnownValues) {
  for (const auto body : {crc32c, crc32c_by_table}) {
    EXPECT_EQ(body("123456789", 0), 0xE3069283u);
    EXPECT_EQ(body("6789", body("12345", 0)), 0xE3069283u);
    EXPECT_EQ(body(std::string(32, '\0'), 0), 0x8A9136AAu);  // RFC 3720, B.4
    EXPECT_EQ(body(std::string(32, '\xff'), 0), 0x62A8AB43u);
    EXPECT_EQ(body("", 0), 0u);
  }
}

TEST(Crc32c, TheInstructionAndTheTableAgreeOnEveryLength) {
  std::string bytes;
  for (std::uint32_t i = 0; i < 1000; ++i) bytes += static_cast<char>((i * 2654435761u) >> 24);
  const std::string_view all = bytes;
  for (const std::size_t length : {1, 7, 8, 9, 63, 64, 65, 990}) {
    for (const std::size_t place : {0, 1, 5, 8}) {
      const std::string_view part = all.substr(place, length);
      EXPECT_EQ(crc32c(part), crc32c_by_table(part)) << length << " bytes at " << place;
    }
  }
}

}  // namespace
}  // namespace lockstep
