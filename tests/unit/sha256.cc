// SHA-256: examples of the standard, whole and in parts.
#include "src/files/sha256.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

/// Messages of FIPS 180-4's examples and of NIST's long message.
TEST(Sha256, KnownValues) {
  for (const auto& [bytes, digest] : std::initializer_list<std::pair<std::string, const char*>>{
           {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
           {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
           {std::string(1'000'000, 'a'),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"}}) {
    Sha256 hash;
    hash.add(bytes.substr(0, bytes.size() / 3));
    hash.add("");
    hash.add(bytes.substr(bytes.size() / 3));
    EXPECT_EQ(hash.digest(), digest);
  }
}

}  // namespace
}  // namespace lockstep
