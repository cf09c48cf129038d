// Writes the page of a run that has ended, or of one without a folder of its own.

#include "apps/evaluate/measures.h"
#include "apps/options/command_line.h"
#include "apps/options/help.h"
#include "src/base/check.h"
#include "src/report/report.h"
#include "src/report/run_page.h"

namespace lockstep {
namespace {

struct PageOptions {
  std::vector<std::string> runs;
  std::string output;
};

void declare(OptionRows& rows, PageOptions& o) {
  rows.group("Options");
  rows.list("RUN", o.runs, "", "Folders of runs, or names of runs in runs/").example("first");
  rows.text("--output", o.output, "FILE", "Page of a single run [report.html in its folder]")
      .example("runs.html");
}

int run(const PageOptions& o) {
  if (!o.output.empty() && o.runs.size() > 1)
    fail_usage("--output is for one run, and there are {}. Omit it.", o.runs.size());
  for (const StoredRun& stored : find_runs(o.runs)) {
    const std::filesystem::path file =
        o.output.empty() ? stored.folder / kReportFile : std::filesystem::path(o.output);
    write_page(file, report_page(measures_json(), stored));
    Console().line(fmt::format("{}: open it in a browser", file.string()));
  }
  return kExitSuccess;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  return run_without_ranks(
      argc, argv,
      {"report_runs", "Writes the page of a run, report.html", "report_runs [OPTIONS] RUN..."},
      declare, run);
}
