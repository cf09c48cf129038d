// Texts that come from files, lists of names, and unique names.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// `text` with '?' for each control character except line ends, because a terminal would obey them.
/// Control characters are the bytes below 32, DEL, and U+0080 to U+009F in UTF-8.
std::string printable(const std::string& text);

/// Prints printable(text) to stderr. A failure changes no exit code (fmt::print would throw).
void print_error(const std::string& text);

/// printable() with '?' for line ends too.
std::string one_line(const std::string& text);

/// `text` as a word that a shell reads.
std::string shell_word(const std::string& text);

/// Some editors of Windows begin a file of UTF-8 with it.
inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// The lines of `text`, without their ends.
std::vector<std::string> lines_of(std::string_view text);

/// The texts or numbers of `parts` with `sign` between them.
template <class Parts>
std::string joined(const Parts& parts, std::string_view sign) {
  return fmt::format("{}", fmt::join(parts, sign));
}

/// The parts of `text` between signs, at least one; they may be empty.
std::vector<std::string> split(std::string_view text, char sign);

/// The lines of `text` that consist of a name, `sign` and a value, in order. Skips other lines.
std::vector<std::pair<std::string, std::string>> named_values(std::string_view text,
                                                              std::string_view sign = "=");

/// "cat, dog, fox". A list of more than ten names ends with "and 90 more".
std::string listed(const std::vector<std::string>& names);

/// The names of `all` that are not in `known`, in the order of `all`.
std::vector<std::string> missing_from(const std::vector<std::string>& known,
                                      const std::vector<std::string>& all);

/// `text` without a byte order mark. If it has the line ends of old Macs (the first one is a CR
/// alone), each CR becomes LF.
std::string with_unix_ends(std::string text);

/// `bytes` random bytes of the kernel (at most 256) in hexadecimal digits: a unique name. Any
/// thread.
std::string unique_hex(std::size_t bytes);

}  // namespace lockstep
