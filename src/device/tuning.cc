#include "src/device/tuning.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/base/text.h"

namespace lockstep {
namespace {

constexpr std::string_view kTitle = "lockstep tuning for ", kIs = " = ";
}  // namespace

bool Tuning::set_text(std::string_view text) {
  std::vector<std::string> lines = lines_of(text);
  if (!text.ends_with('\n')) {  // incomplete: without its end the last line is invalid
    lines.resize(std::max<std::size_t>(lines.size(), 1));
    lines.back().clear();
  }
  const std::string_view title = lines.front();
  require(title.starts_with(kTitle), "this text is not a tuning: it begins with \"{}\"",
          title.substr(0, 40));
  std::map<std::string, std::string> plans;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    const std::size_t is = line.find(kIs);
    require(is != line.npos && is > 0 && is + kIs.size() < line.size() &&
                plans.emplace(line.substr(0, is), line.substr(is + kIs.size())).second,
            "line {} of the tuning is not a new \"work = plan\": \"{}\"", i + 1,
            line.substr(0, 80));
  }
  if (title.substr(kTitle.size()) != platform_) return false;
  plans_ = std::move(plans);
  return true;
}

std::string Tuning::text() const {
  std::string text = fmt::format("{}{}\n", kTitle, platform_);
  for (const auto& [work, plan] : plans_) text += work + std::string(kIs) + plan + "\n";
  return text;
}

std::string Tuning::timed_part(std::string_view text) {
  std::string part;
  for (const std::string& line : lines_of(text)) {
    if (!line.starts_with(kUntimed)) part += line + "\n";
  }
  return part;
}

const std::string* Tuning::find(const std::string& work) const {
  const auto place = plans_.find(work);
  return place == plans_.end() ? nullptr : &place->second;
}

void Tuning::note(const std::string& work, const std::string& plan) {
  expect(!work.empty() && work.find_first_of("=\n") == work.npos, "not a key of a tuned plan");
  expect(!plan.empty() && plan.find('\n') == plan.npos, "not a name of a plan");
  plans_[work] = plan;
}

}  // namespace lockstep
