// Texts that come from files, and lists of names, in the form that people read.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// `text` with '?' for each control character except line ends: a terminal would obey them. These
/// are the bytes below 32, DEL, and U+0080 to U+009F in UTF-8.
std::string printable(const std::string& text);

/// "cat, dog, fox"; longer lists end like "... and 90 more" after ten names.
std::string listed(const std::vector<std::string>& names);

/// The names of `all` that are not in `known`, in the order of `all`.
std::vector<std::string> missing_from(const std::vector<std::string>& known,
                                      const std::vector<std::string>& all);

}  // namespace lockstep
