// Lines of the start-up summary (apps/run/summary.h). The parts of a run describe themselves in
// them.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lockstep {

struct SummaryLines {
  /// Headings of at most 12 characters, and texts.
  std::vector<std::pair<std::string, std::string>> lines;

  /// No line for an empty `text`.
  void add(const std::string& heading, const std::string& text) {
    if (!text.empty()) lines.emplace_back(heading, text);
  }
  void add(const std::string& heading, const std::vector<std::string>& texts) {
    for (const std::string& text : texts) add(heading, text);
  }
};

}  // namespace lockstep
