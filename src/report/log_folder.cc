// The run whose logs a folder contains, and moving them aside for another run.
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "src/base/check.h"
#include "src/report/report.h"

namespace lockstep {

LoggedRun logged_run(const std::filesystem::path& directory) {
  LoggedRun logged;
  std::error_code error;  // a device has no end
  if (!std::filesystem::is_regular_file(directory / "metrics.jsonl", error)) return logged;
  std::ifstream in(directory / "metrics.jsonl", std::ios::binary);
  for (std::string line; std::getline(in, line);) {
    const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    const auto text = [&](const char* name) {
      const auto found = object.is_object() ? object.find(name) : object.end();
      return object.is_object() && found != object.end() && found->is_string()
                 ? found->get<std::string>()
                 : "";
    };
    const std::string kind = text("kind");
    if (kind == "run") logged.run = text("id");
    if (kind == "train" || kind == "evaluation") logged.begun = true;
  }
  return logged;
}

std::filesystem::path set_logs_aside(const std::filesystem::path& directory) {
  try {
    std::filesystem::path aside;
    for (int n = 1;; ++n) {
      aside = directory / fmt::format("earlier-{}", n);
      if (std::filesystem::create_directory(aside)) break;
    }
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("events.out.tfevents.")) files.push_back(entry.path());
    }
    files.push_back(directory / "metrics.jsonl");  // last, so that all are gone if it is
    for (const auto& file : files) std::filesystem::rename(file, aside / file.filename());
    return aside;
  } catch (const std::filesystem::filesystem_error& error) {
    fail("cannot set the earlier run's logs in {} aside: {}; choose another --run",
         directory.string(), error.code().message());
  }
}

}  // namespace lockstep
