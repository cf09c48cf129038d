// CRC-32C: by instruction and by table, of any length and place.
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
  for (std::uint32_t i = 0; i < 50000; ++i) bytes += static_cast<char>((i * 2654435761u) >> 24);
  const std::string_view all = bytes;
  // Around one and two stretches of three times 4096 bytes, at places that are not aligned.
  for (const std::size_t length : {1, 7, 8, 9, 4096, 12287, 12288, 12289, 24575, 24577, 49990}) {
    for (const std::size_t place : {0, 1, 5, 8}) {
      const std::string_view part = all.substr(place, length);
      EXPECT_EQ(crc32c(part), crc32c_by_table(part)) << length << " bytes at " << place;
    }
  }
}

TEST(Crc32c, EveryBitCounts) {
  std::string bytes(40000, 'x');
  const std::uint32_t before = crc32c(bytes);
  for (const std::size_t place : {0, 4095, 4096, 8192, 12287, 12288, 30000, 39999}) {
    bytes[place] ^= 4;
    EXPECT_NE(crc32c(bytes), before) << place;
    bytes[place] ^= 4;
  }
}

}  // namespace
}  // namespace lockstep
