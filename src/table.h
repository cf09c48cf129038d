// Menus: constexpr arrays of entries that are found by name. An unknown name is answered with the
// nearest and with the list.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/check.h"

namespace lockstep {

/// The nearest of `known` to `name` by edit distance; empty if none is near enough to be meant.
std::string nearest(std::string_view name, const std::vector<std::string_view>& known);

/// Throws the usage error for an unknown `name` of a `kind` of thing ("reducer").
[[noreturn]] void fail_unknown(std::string_view kind, std::string_view name,
                               const std::vector<std::string_view>& known);

/// The entry of `table` called `name`. Entry has members `name` and `about` (one line for --list).
template <class Table>
const auto& find(const Table& table, std::string_view kind, std::string_view name) {
  std::vector<std::string_view> known;
  for (const auto& entry : table) {
    if (name == entry.name) return entry;
    known.push_back(entry.name);
  }
  fail_unknown(kind, name, known);
}

}  // namespace lockstep
