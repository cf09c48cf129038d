// Pages about runs, as single HTML files that need no network: report.html and compare.html.
// src/report/page has their style and their scripts. Everything from a run is data for them: no
// text of a run is part of the HTML or of a script.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "src/report/stored_run.h"

namespace lockstep {

inline constexpr const char* kReportFile = "report.html";

/// Facts about a run that trains, which its files do not have yet.
struct LiveRun {
  double step = 0, seconds = 0;  ///< done so far
  double next = 0;               ///< seconds that may pass until its next page
};

/// The page of one run. `live`: if it is written by the run itself, while it trains. `measures`:
/// measures_json() (apps/evaluate/measures.h).
std::string report_page(const nlohmann::ordered_json& measures, const StoredRun& run,
                        const std::optional<LiveRun>& live = {});
/// The page that compares runs, which have these names.
std::string comparison_page(const nlohmann::ordered_json& measures,
                            const std::vector<StoredRun>& runs,
                            const std::vector<std::string>& labels);

/// Replaces `file` as a whole. Throws Error if it cannot be written, or if it exists and is no page
/// of these.
void write_page(const std::filesystem::path& file, const std::string& page);

}  // namespace lockstep
