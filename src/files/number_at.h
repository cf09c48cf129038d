// Little-endian numbers within bytes of a file.
#pragma once

#include <bit>
#include <cstring>
#include <string_view>

namespace lockstep {

static_assert(std::endian::native == std::endian::little, "files of weights are little-endian");

/// The number at `place`; 0: `bytes` end before its end.
template <class Number>
Number number_at(std::string_view bytes, std::size_t place) {
  Number number = 0;
  if (place <= bytes.size() && bytes.size() - place >= sizeof number)
    std::memcpy(&number, bytes.data() + place, sizeof number);
  return number;
}

}  // namespace lockstep
