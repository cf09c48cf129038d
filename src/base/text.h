// Texts that come from files, and lists of names, in the form that people read.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// `text` with '?' for each control character except line ends: a terminal would obey them. These
/// are the bytes below 32, DEL, and U+0080 to U+009F in UTF-8.
std::string printable(const std::string& text);

/// The lines of `text`, without their ends.
std::vector<std::string> lines_of(std::string_view text);

/// The lines of `text` that are a name, `sign` and a value, in order. Other lines are left out.
std::vector<std::pair<std::string, std::string>> named_values(std::string_view text,
                                                              std::string_view sign = "=");

/// "cat, dog, fox"; longer lists end like "... and 90 more" after ten names.
std::string listed(const std::vector<std::string>& names);

/// The names of `all` that are not in `known`, in the order of `all`.
std::vector<std::string> missing_from(const std::vector<std::string>& known,
                                      const std::vector<std::string>& all);

}  // namespace lockstep
