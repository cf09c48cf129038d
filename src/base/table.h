// Registries: entries that a user chooses by name. A registry is a function
// `std::span<const Entry> xs()`, and find(xs(), name) returns its entry. The error for an unknown
// name contains the nearest name and the list.
//
// An Entry has members `name` and `about` (one line for --list), and a static member `kind`: its
// term in errors ("reducer").
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/check.h"

namespace lockstep {

/// The nearest of `known` to `name` by edit distance; empty if none is near enough. A name that
/// begins with `name` is near.
std::string nearest(std::string_view name, const std::vector<std::string_view>& known);

/// Throws the usage error for an unknown `name` of a `kind` ("reducer").
[[noreturn]] void fail_unknown(std::string_view kind, std::string_view name,
                               const std::vector<std::string_view>& known);

template <class Entry>
std::vector<std::string> names_of(std::span<const Entry> registry) {
  std::vector<std::string> names;
  for (const Entry& entry : registry) names.emplace_back(entry.name);
  return names;
}

/// The entry of `registry` with this name; null: there is none.
template <class Entry>
const Entry* find_or_null(std::span<const Entry> registry, std::string_view name) {
  for (const Entry& entry : registry)
    if (name == entry.name) return &entry;
  return nullptr;
}

/// The same, but throws the usage error if there is none.
template <class Entry>
const Entry& find(std::span<const Entry> registry, std::string_view name) {
  if (const Entry* entry = find_or_null(registry, name)) return *entry;
  std::vector<std::string_view> known;
  for (const Entry& entry : registry) known.push_back(entry.name);
  fail_unknown(Entry::kind, name, known);
}

}  // namespace lockstep
