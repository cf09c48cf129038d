// Regular expressions for tests. <regex> takes seconds to compile, so only pattern.cc includes it.
#pragma once

#include <string>

namespace lockstep {

/// Whether all of `text` matches.
bool matches(const std::string& text, const std::string& pattern);
/// Whether a part of `text` matches.
bool has_match(const std::string& text, const std::string& pattern);
/// `text` with `by` for each match; $1 is the first group.
std::string replaced(const std::string& text, const std::string& pattern, const std::string& by);

}  // namespace lockstep
