#include "src/device/tuning.h"

#include <optional>

#include "src/base/check.h"

namespace lockstep {
namespace {

constexpr std::string_view kTitle = "lockstep tuning for ", kIs = " = ";

/// The next line of `text`, which is cut off it; a last line without its end is none.
std::optional<std::string_view> next_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  if (end == text.npos) return {};
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 1);
  return line;
}

}  // namespace

bool Tuning::take(std::string_view text) {
  const auto title = next_line(text);
  require(title && title->starts_with(kTitle), "this is no text of tuned plans: it begins \"{}\"",
          title.value_or(text).substr(0, 40));
  std::map<std::string, std::string> plans;
  for (int number = 2; !text.empty(); ++number) {
    const auto line = next_line(text);
    const std::size_t is = line ? line->find(kIs) : std::string_view::npos;
    require(is != std::string_view::npos && is > 0 && is + kIs.size() < line->size(),
            "line {} of the tuned plans is not \"work = plan\": \"{}\"", number,
            line.value_or(text).substr(0, 80));
    const bool fresh = plans.emplace(line->substr(0, is), line->substr(is + kIs.size())).second;
    require(fresh, "line {} of the tuned plans says again what \"{}\" is", number,
            line->substr(0, is));
  }
  if (title->substr(kTitle.size()) != platform_) return false;
  plans_ = std::move(plans);
  return true;
}

std::string Tuning::text() const {
  std::string text = fmt::format("{}{}\n", kTitle, platform_);
  for (const auto& [work, plan] : plans_) text += work + std::string(kIs) + plan + "\n";
  return text;
}

const std::string* Tuning::find(const std::string& work) const {
  const auto place = plans_.find(work);
  return place == plans_.end() ? nullptr : &place->second;
}

void Tuning::note(const std::string& work, const std::string& plan) {
  expect(!work.empty() && work.find_first_of("=\n") == work.npos, "no key of a tuned plan");
  expect(!plan.empty() && plan.find('\n') == plan.npos, "no name of a plan");
  plans_[work] = plan;
}

}  // namespace lockstep
