// Files of options: TOML, name = value lines without sections, held to the standard.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// One line of a config file.
struct ConfigValue {
  /// list: an array of texts without control characters; array: any other.
  enum class Kind { boolean, integer, number, text, list, array };
  std::string name;
  Kind kind;
  std::string value;  ///< as on a command line: true, 7, 0.1, cosine; of a list: its texts as lines
  std::string place;  ///< "run.toml:3:1": file, line and column of the name
};

/// What `file` says, in its order. Throws the usage error with file, line and column where it is no
/// TOML, a name stands there twice, or a value is none of these kinds; with the cause where the
/// file cannot be read.
std::vector<ConfigValue> read_config(const std::string& file);

/// `text` as a TOML string that read_config() reads back. Only for UTF-8.
std::string toml_string(std::string_view text);

/// Whether TOML can hold `text` at all.
bool is_utf8(std::string_view text);

}  // namespace lockstep
