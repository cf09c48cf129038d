// Registries with one word per entry: a macro lists the functions that make the entries, as in
// `#define ROWS(row) row(sgd) row(adam)`.
#pragma once

#include <array>
#include <span>

#define LOCKSTEP_DECLARE_ENTRY(name) RegistryEntry name();
#define LOCKSTEP_MAKE_ENTRY(name) name(),

/// Declares the functions of `rows` and defines `std::span<const Type> function()`. Once a file.
#define LOCKSTEP_REGISTRY(Type, function, rows)                   \
  using RegistryEntry = Type;                                     \
  rows(LOCKSTEP_DECLARE_ENTRY) std::span<const Type> function() { \
    static const std::array entries{rows(LOCKSTEP_MAKE_ENTRY)};   \
    return entries;                                               \
  }
