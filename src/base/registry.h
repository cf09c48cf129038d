// Registries with one word per entry: a macro lists the functions that make the entries, as in
// `#define ROWS(row) row(sgd) row(adam)`.
#pragma once

#include <array>
#include <span>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/base/table.h"

#define LOCKSTEP_DECLARE_ENTRY(name) RegistryEntry name();
#define LOCKSTEP_MAKE_ENTRY(name) name(),

/// Declares the functions of `rows` and defines `std::span<const Type> function()`. Once a file.
#define LOCKSTEP_REGISTRY(Type, function, rows)                   \
  using RegistryEntry = Type;                                     \
  rows(LOCKSTEP_DECLARE_ENTRY) std::span<const Type> function() { \
    static const std::array entries{rows(LOCKSTEP_MAKE_ENTRY)};   \
    return entries;                                               \
  }

/// The same with `void add(Type entry)`, which appends to it. It throws Error if the name is taken.
#define LOCKSTEP_OPEN_REGISTRY(Type, function, add, rows)                                         \
  using RegistryEntry = Type;                                                                     \
  rows(LOCKSTEP_DECLARE_ENTRY) static std::vector<Type>& entries_of_##function() {                \
    static std::vector<Type> entries{rows(LOCKSTEP_MAKE_ENTRY)};                                  \
    return entries;                                                                               \
  }                                                                                               \
  std::span<const Type> function() { return entries_of_##function(); }                            \
  void add(Type entry) {                                                                          \
    require(!find_or_null(function(), entry.name), "the {} {} exists already. Use another name.", \
            Type::kind, entry.name);                                                              \
    entries_of_##function().push_back(std::move(entry));                                          \
  }
