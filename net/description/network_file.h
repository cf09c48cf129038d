// A network as a TOML file: --model FILE.toml. docs/models.md describes the language.
#pragma once

#include <filesystem>
#include <string>

#include "net/model.h"

namespace lockstep {

/// The text of `file` as checkpoints keep it: with spaces for tabs, and lines that end by '\n'.
/// Throws the usage Error if it cannot be read or is no text.
std::string read_network_file(const std::filesystem::path& file);

/// The model `name` of such a text. `file` stands in errors: "net.toml:7: kernel: ...". Throws the
/// usage Error for everything that is wrong without regard to shapes. Shapes are checked when a
/// Model is made.
ModelEntry network_entry(const std::string& name, const std::string& text, const std::string& file);

/// A model of the registry. Its text is a file of apps/networks.
ModelEntry built_in_network(const std::string& name, const std::string& text);

/// The model with this name: of `text`, or if it is empty, of the registry.
ModelEntry model_called(const std::string& name, const std::string& text, const std::string& file);
/// "line 7 is `...`, not `...`": the first line of `now` that differs from `before`. Empty: both are
/// the same network, whatever their comments and spaces.
std::string network_difference(const std::string& before, const std::string& now);

}  // namespace lockstep
