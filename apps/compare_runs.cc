// Compares runs: their results and the options that differ, as a table, as JSON and as a page.

#include <algorithm>
#include <set>

#include "apps/evaluate/measures.h"
#include "apps/options/command_line.h"
#include "apps/options/help.h"
#include "src/base/check.h"
#include "src/base/text.h"
#include "src/report/report.h"
#include "src/report/run_page.h"
#include "src/report/stored_run.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct CompareOptions {
  std::vector<std::string> runs;
  std::string output;
  bool json = false;
};

void declare(OptionRows& rows, CompareOptions& o) {
  rows.group("Options");
  rows.list("RUNS", o.runs, "", "Folders of runs, or names of runs in runs/")
      .example("first second");
  rows.flag("--json", o.json, "One JSON object instead of the table");
  rows.text("--output", o.output, "FILE",
            "Page with the curves and the table [compare.html beside the first run]\n"
            "A file that compare_runs did not write is never replaced.")
      .example("runs.html");
}

/// The texts of a table by line.
using Cells = std::vector<std::vector<std::string>>;

/// The runs by name, or by folder if names are alike.
std::vector<std::string> labels_of(const std::vector<StoredRun>& runs) {
  std::set<std::string> names;
  for (const StoredRun& run : runs) names.insert(run.name);
  std::vector<std::string> labels;
  for (const StoredRun& run : runs)
    labels.push_back(names.size() == runs.size() ? run.name : run.folder.string());
  return labels;
}

/// The options that are not the same in all runs, in the order of the runs' files.
std::vector<std::string> differing_options(const std::vector<StoredRun>& runs) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const StoredRun& run : runs) {
    for (const auto& [name, value] : run.options) {
      if (!seen.insert(name).second) continue;
      const auto same = [&, &name = name](const StoredRun& other) {
        return other.option(name) == runs.front().option(name);
      };
      if (!std::ranges::all_of(runs, same)) names.push_back(name);
    }
  }
  return names;
}

// Empty: the result is not known.
std::string percent(const ordered_json& share) {
  return share.is_null() ? "" : fmt::format("{:.2f} %", 100 * share.get<double>());
}
std::string number(const ordered_json& value, int digits) {
  return value.is_null() ? "" : fmt::format("{:.{}f}", value.get<double>(), digits);
}

/// A line for each result: its name, and its text; empty: it is not known.
Cells results_in_words(const StoredRun& run) {
  const ordered_json r = results_of(run);
  const std::string by = r["by"];
  const Measure* const measure = find_or_null(measures(), by);  // null: of a later version
  const ordered_json &value = r["value"], &loss = r["loss"], &seconds = r["seconds"];
  const std::string step = number(r["step"], 0);
  return {{"status", r["status"]},
          {"model", run.option("model")},
          {"best accuracy", percent(r["best"])},
          {"best by", measure && !value.is_null() ? by + " " + measure->text(value) : by},
          {"at step", number(r["best_step"], 0)},
          {"last accuracy", percent(r["last"])},
          {"last loss", loss.is_null() && !r["last"].is_null() ? "NaN" : number(loss, 4)},
          {"test accuracy", percent(r["test"])},
          {"training loss", number(r["train_loss"], 4)},
          {"steps", step.empty() ? "" : step + "/" + number(r["steps"], 0)},
          {"time", seconds.is_null() ? "" : duration_text(seconds)},
          {"samples/s", number(r["images_per_s"], 0)}};
}

/// The results that are known of a run.
Cells result_rows(const std::vector<StoredRun>& runs) {
  Cells rows = results_in_words(runs.front());
  for (std::size_t run = 1; run < runs.size(); ++run) {
    const Cells more = results_in_words(runs[run]);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i].push_back(more[i].back());
  }
  std::erase_if(rows,
                [&](const auto& row) { return std::ranges::count(row, "") == std::ssize(runs); });
  return rows;
}

Cells option_rows(const std::vector<StoredRun>& runs) {
  Cells rows;
  for (const std::string& name : differing_options(runs)) {
    if (name == "model" || name == "steps") continue;  // they are among the results
    rows.push_back({"--" + name});
    for (const StoredRun& run : runs) rows.back().push_back(run.option(name));
  }
  return rows;
}

/// Removes descriptions that are the same in all runs. Returns a line with them; empty: there are
/// none.
std::string in_all(Cells& rows) {
  static const std::set<std::string> descriptions = {"status", "model", "at step", "steps"};
  std::string text;
  std::erase_if(rows, [&](const std::vector<std::string>& row) {
    const bool same =
        descriptions.contains(row[0]) && std::set(row.begin() + 1, row.end()).size() == 1;
    if (same) text += fmt::format("{} {} {}", text.empty() ? "all runs:" : ",", row[0], row[1]);
    return same;
  });
  return text.empty() ? text : text + "\n\n";
}

/// A line for each run, below two lines with the first words of the names and the last ones.
Cells turned(const Cells& rows) {
  Cells lines(rows.front().size() + 1);
  for (const std::vector<std::string>& row : rows) {
    const std::size_t space = row[0].find(' ');
    lines[0].push_back(space == row[0].npos ? "" : row[0].substr(0, space));
    lines[1].push_back(space == row[0].npos ? row[0] : row[0].substr(space + 1));
    for (std::size_t i = 1; i < row.size(); ++i) lines[i + 1].push_back(row[i]);
  }
  return lines;
}

/// One line for each row, or for each run if that is narrower than the runs side by side.
std::string table_text(Cells cells) {
  constexpr std::size_t kColumns = 100;
  for (auto& line : cells)
    for (std::string& text : line) text = text.empty() ? "-" : one_line(text);
  const auto widths_of = [](const Cells& lines) {
    std::vector<std::size_t> widths(lines.front().size());
    for (const auto& line : lines)
      for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
    return widths;
  };
  std::vector<std::size_t> widths = widths_of(cells);
  std::size_t width = 0;
  for (const std::size_t column : widths) width += column + 2;
  std::string text;
  if (width > kColumns && cells.front().size() > 5) {  // of more than four runs
    text = in_all(cells);
    cells = turned(cells);
    widths = widths_of(cells);
  }
  for (const auto& line : cells) {
    std::string shown;
    for (std::size_t i = 0; i < line.size(); ++i)
      shown += fmt::format("{:<{}}  ", line[i], widths[i]);
    text += shown.substr(0, shown.find_last_not_of(' ') + 1) + "\n";
  }
  text.pop_back();
  return text;
}

std::string json_of(const std::vector<StoredRun>& runs) {
  const std::vector<std::string> names = differing_options(runs);
  ordered_json list = ordered_json::array();
  for (const StoredRun& run : runs) {
    ordered_json options = ordered_json::object();
    for (const std::string& name : names) {
      const std::string value = run.option(name);
      options[name] = value.empty() ? ordered_json() : ordered_json(value);
    }
    list.push_back({{"run", run.name},
                    {"folder", run.folder.string()},
                    {"results", results_of(run)},
                    {"options", options}});
  }
  return json_text({{"differing_options", names}, {"runs", list}}, 2);
}

/// compare.html in the folder that contains the run's folder.
fs::path page_beside(const StoredRun& run) {
  return (run.folder / ".." / "compare.html").lexically_normal();
}

int run(const CompareOptions& o) {
  const std::vector<StoredRun> runs = find_runs(o.runs);
  if (runs.size() < 2) fail_usage("one run cannot be compared. Name two or more.");
  const std::vector<std::string> labels = labels_of(runs);
  if (o.json) {
    Console().line(json_of(runs));
  } else {
    Cells cells{{"run"}};
    cells.front().insert(cells.front().end(), labels.begin(), labels.end());
    for (const Cells& rows : {result_rows(runs), option_rows(runs)})
      cells.insert(cells.end(), rows.begin(), rows.end());
    Console().line(table_text(std::move(cells)));
  }
  const fs::path page = o.output.empty() ? page_beside(runs.front()) : fs::path(o.output);
  write_page(page, comparison_page(measures_json(), runs, labels));
  if (!o.json) Console().line(fmt::format("\ncurves: open {} in a browser", page.string()));
  return kExitSuccess;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  return run_without_ranks(argc, argv,
                           {"compare_runs", "Compares the options and the results of runs",
                            "compare_runs [OPTIONS] RUNS..."},
                           declare, run);
}
