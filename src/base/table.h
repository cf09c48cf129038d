// Menus: what a user chooses from by name. Each menu is a function `std::span<const Entry> xs()`,
// and find(xs(), name) is its entry; an unknown name is answered with the nearest and the list.
//
// An Entry has members `name` and `about` (one line for --list), and `kind`, a static one: what its
// things are called in errors ("reducer").
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/check.h"

namespace lockstep {

/// The nearest of `known` to `name` by edit distance; empty if none is near enough to be meant.
std::string nearest(std::string_view name, const std::vector<std::string_view>& known);

/// Throws the usage error for an unknown `name` of a `kind` of thing ("reducer").
[[noreturn]] void fail_unknown(std::string_view kind, std::string_view name,
                               const std::vector<std::string_view>& known);

/// The entry of `menu` called `name`. Throws the usage error where there is none.
template <class Entry>
const Entry& find(std::span<const Entry> menu, std::string_view name) {
  std::vector<std::string_view> known;
  for (const Entry& entry : menu) {
    if (name == entry.name) return entry;
    known.push_back(entry.name);
  }
  fail_unknown(Entry::kind, name, known);
}

}  // namespace lockstep
