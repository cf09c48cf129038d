#include "src/base/unique.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "src/base/check.h"

namespace lockstep {

std::string unique_hex(std::size_t bytes) {
  std::array<unsigned char, 256> random{};
  expect(bytes <= random.size(), "too many random bytes at once");
  ssize_t got;
  do {
    got = ::getrandom(random.data(), bytes, 0);  // up to 256 bytes come whole
  } while (got < 0 && errno == EINTR);
  require(got == static_cast<ssize_t>(bytes), "the kernel gives no random numbers: {}",
          std::strerror(errno));
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += fmt::format("{:02x}", random[i]);
  return text;
}

}  // namespace lockstep
