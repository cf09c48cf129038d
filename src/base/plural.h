// Numbers with the noun that they count.
#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace lockstep {

/// "1 rank", "2 ranks".
std::string counted(std::integral auto number, std::string_view what) {
  return std::to_string(number) + ' ' + std::string(what) + (number == 1 ? "" : "s");
}

}  // namespace lockstep
