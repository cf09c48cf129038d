// Files of text.
#pragma once

#include <filesystem>
#include <string>

namespace lockstep {

/// The content of a text file in UTF-8, without a byte order mark. Throws Error that names the
/// file, the line and the fix if it is no such file.
std::string read_text_file(const std::filesystem::path& file);

/// Whether the name is that of a text file: it ends in .txt or .text, or has no ending of letters.
bool has_text_name(const std::filesystem::path& file);

}  // namespace lockstep
