#include "src/report/run_page.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "src/base/check.h"
#include "src/base/machine.h"
#include "src/files/file.h"
#include "src/report/report.h"

namespace lockstep {

extern const char* const kPage;  // written by cmake/page.cmake

namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMostRows = 1600;  // of a kind; more have only their extremes

/// The rows that a curve needs: all, or of each of many parts the first and those with the least
/// and the most of these columns.
std::vector<std::size_t> shown_rows(const MetricRows& rows) {
  constexpr std::size_t kPerPart = 7;
  // Rows at equal distances would hide a single spike. So each part keeps its extremes.
  const std::size_t parts = rows.count <= kMostRows ? rows.count : kMostRows / kPerPart;
  std::set<std::size_t> shown;
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t begin = part * rows.count / parts, end = (part + 1) * rows.count / parts;
    shown.insert(begin);
    if (parts == rows.count) continue;
    for (const char* name : {"loss", "images_per_s", "exposed_communication"}) {
      std::size_t least = begin, most = begin;
      for (std::size_t i = begin + 1; i < end; ++i) {
        if (rows.at(name, i) < rows.at(name, least)) least = i;
        if (rows.at(name, i) > rows.at(name, most)) most = i;
      }
      shown.insert({least, most});
    }
  }
  if (rows.count > 0) shown.insert(rows.count - 1);
  return {shown.begin(), shown.end()};
}

ordered_json to_json(const MetricRows& rows) {
  const std::vector<std::size_t> shown = shown_rows(rows);
  ordered_json columns = ordered_json::object();
  for (const auto& [name, values] : rows.columns) {
    ordered_json column = ordered_json::array();
    for (const std::size_t row : shown) column.push_back(number_json(rows.at(name, row)));
    columns[name] = std::move(column);
  }
  return {{"count", rows.count}, {"kept", shown.size()}, {"columns", std::move(columns)}};
}

/// Means over the rows after the first, because the first step is like no other.
ordered_json means(const MetricRows& rows) {
  ordered_json result = ordered_json::object();
  for (const char* name : {"seconds_per_batch", "forward", "backward", "optimizer",
                           "exposed_communication", "loader_wait"}) {
    double sum = 0, count = 0;
    for (std::size_t i = rows.count > 1 ? 1 : 0; i < rows.count; ++i) {
      const double value = rows.at(name, i);
      if (std::isnan(value)) continue;
      sum += value;
      ++count;
    }
    if (count > 0) result[name] = sum / count;
  }
  return result;
}

/// One object for each rank that was a straggler, with its number of reports.
ordered_json stragglers(const MetricRows& rows) {
  struct Late {
    double reports = 0, seconds = 0, last_step = 0;
  };
  std::map<double, Late> by_rank;
  for (std::size_t i = 0; i < rows.count; ++i) {
    const double rank = rows.at("straggler", i);
    if (std::isnan(rank)) continue;
    Late& late = by_rank[rank];
    ++late.reports;
    late.seconds += rows.at("straggler_seconds", i);
    late.last_step = rows.at("step", i);
  }
  ordered_json list = ordered_json::array();
  for (const auto& [rank, late] : by_rank) {
    list.push_back({{"rank", number_json(rank)},
                    {"reports", late.reports},
                    {"seconds", number_json(late.seconds / late.reports)},
                    {"last_step", number_json(late.last_step)}});
  }
  return list;
}

/// [name, value, whether it differs from its default]
ordered_json options_json(const StoredRun& run) {
  std::set<std::string> changed;
  if (run.summary.is_object()) {
    for (const auto& name : run.summary.value("changed_options", ordered_json()))
      if (name.is_string()) changed.insert(name.get<std::string>());
  }
  ordered_json list = ordered_json::array();
  for (const auto& [name, value] : run.options)
    list.push_back(ordered_json::array({name, value, changed.contains(name)}));
  return list;
}

ordered_json to_json(const StoredRun& run, const std::string& label) {
  ordered_json rows = ordered_json::object();
  for (const auto& [kind, of_kind] : run.rows) rows[kind] = to_json(of_kind);
  return {{"name", run.name},
          {"label", label},
          {"folder", run.folder.string()},
          {"last_sign", number_json(run.last_sign)},
          {"results", results_of(run)},
          {"summary", run.summary},
          {"start", run.start},
          {"evaluation", run.evaluation},
          {"options", options_json(run)},
          {"parts", means(run.of("train"))},
          {"stragglers", stragglers(run.of("train"))},
          {"rows", std::move(rows)}};
}

/// The page with its title and data. '<' appears only in JSON's strings, where \u003c means the
/// same and ends no script.
std::string page_of(const std::string& title, const ordered_json& data) {
  std::string page = kPage;
  const auto insert = [&](std::string_view mark, const std::string& text, bool is_json) {
    std::string safe;
    for (const char c : text) {
      const int code = c;
      if (c != '<' && c != '&' && c != '>') {
        safe += c;
      } else {
        safe += is_json ? fmt::format("\\u{:04x}", code) : fmt::format("&#{};", code);
      }
    }
    page.replace(page.find(mark), mark.size(), safe);
  };
  insert("@DATA@", json_text(data), true);  // before the title, which may contain the mark
  insert("@TITLE@", title, false);
  return page;
}

ordered_json page_data(const char* kind, const ordered_json& measures) {
  return {{"kind", kind},
          {"measures", measures},
          {"written", wall_time()},
          {"version", build_name()},
          {"runs", ordered_json::array()}};
}

}  // namespace

std::string report_page(const ordered_json& measures, const StoredRun& run,
                        const std::optional<LiveRun>& live) {
  ordered_json data = page_data("report", measures), shown = to_json(run, run.name);
  if (live) {
    data["next"] = number_json(live->next);
    shown["last_sign"] = data["written"];
    ordered_json& results = shown["results"];
    if (!(results["step"] >= live->step)) results["step"] = number_json(live->step);
    results["seconds"] = number_json(live->seconds);
  }
  data["runs"].push_back(std::move(shown));
  return page_of(run.name, data);
}

std::string comparison_page(const ordered_json& measures, const std::vector<StoredRun>& runs,
                            const std::vector<std::string>& labels) {
  ordered_json data = page_data("compare", measures);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    ordered_json run = to_json(runs[i], labels[i]);
    run.erase("evaluation");  // the page does not show it, and its pictures are large
    data["runs"].push_back(std::move(run));
  }
  return page_of(fmt::format("{} runs", runs.size()), data);
}

void write_page(const std::filesystem::path& file, const std::string& page) {
  constexpr std::string_view kMark = "<!-- Lockstep page -->";
  const auto begin = read_file(file, 128);
  require(!begin || begin->find(kMark) != begin->npos,
          "{} exists, and Lockstep did not write it. Move it, or choose another name.",
          file.string());
  replace_file(file, page);
}

}  // namespace lockstep
