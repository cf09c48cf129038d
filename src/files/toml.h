// TOML files, parsed by toml++: networks, and the options of a run.
#pragma once

#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 0
// toml++ asserts what some mistakes break, such as "[}". A TomlAssertion does not end the program.
struct TomlAssertion {};
[[noreturn]] void fail_toml_assertion();
#define TOML_ASSERT(expression) ((expression) ? void() : fail_toml_assertion())
#include <toml++/toml.h>

#include <filesystem>
#include <string>

namespace lockstep {

/// The text of the file of `option` ("--config"). Throws the usage error if it cannot be read or
/// has more than `most` bytes.
std::string read_toml(const char* option, const std::filesystem::path& file, std::size_t most);

/// The tables in `text`. Throws the usage error "run.toml:3: TOML: what is wrong. `advice`".
toml::table parse_toml(const std::string& text, const std::string& file, const char* advice);

}  // namespace lockstep
