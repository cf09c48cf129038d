// SHA-256: the examples of the standard, parts of any size, and both ways to compute it.
#include "src/base/sha256.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep {
namespace {

std::string hash_of(std::string_view bytes, bool by_instruction) {
  Sha256 hash(by_instruction);
  hash.add(bytes);
  return hash.digest();
}

/// Messages of FIPS 180-4's examples and of NIST's long message.
TEST(Sha256, KnownValues) {
  for (const bool by_instruction : {false, true}) {
    EXPECT_EQ(hash_of("", by_instruction),
              "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(hash_of("abc", by_instruction),
              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(hash_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", by_instruction),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    EXPECT_EQ(hash_of("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                      "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
                      by_instruction),
              "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
    EXPECT_EQ(hash_of(std::string(1'000'000, 'a'), by_instruction),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  }
}

TEST(Sha256, BothWaysAgreeOnEveryLengthAndOnParts) {
  std::string bytes;
  for (std::uint32_t i = 0; i < 300; ++i) bytes += static_cast<char>((i * 2654435761u) >> 24);
  const std::string_view all = bytes;
  for (std::size_t length = 0; length <= all.size(); ++length) {
    const std::string whole = hash_of(all.substr(0, length), false);
    EXPECT_EQ(hash_of(all.substr(0, length), true), whole) << length;
    for (const std::size_t first : {1, 55, 64, 100}) {
      if (first > length) continue;
      Sha256 parts;
      parts.add(all.substr(0, first));
      parts.add("");
      parts.add(all.substr(first, length - first));
      EXPECT_EQ(parts.digest(), whole) << first << " of " << length;
    }
  }
}

}  // namespace
}  // namespace lockstep
