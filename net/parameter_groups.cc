#include "net/parameter_groups.h"

#include <fnmatch.h>

#include <algorithm>
#include <map>

#include "src/base/check.h"
#include "src/base/option_rows.h"
#include "src/base/text.h"

namespace lockstep {
namespace {

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

/// Throws: `group` applies to no parameter.
[[noreturn]] void fail_empty(const ParameterGroup& group, const Layout& layout) {
  std::vector<std::string_view> names;
  for (const Parameter& parameter : layout.parameters) {
    if (!parameter.trained()) continue;
    if (matches(group.pattern, parameter.name)) {
      fail_usage(
          "--group {} has no effect: earlier groups match all its parameters. Put it before them.",
          group.pattern);
    }
    names.push_back(parameter.name);
  }
  // The arena begins with the last layer. A reader expects the first one.
  std::ranges::reverse(names);
  fail_usage("--group {} matches no parameter. The parameters are {}", group.pattern,
             fmt::join(names, ", "));
}

/// Parameter::schedule of a group with `epochs`.
int schedule_of(double epochs, Layout& layout) {
  if (epochs == 0) return 0;
  const auto known = std::ranges::find(layout.epochs, epochs);
  const auto place = static_cast<int>(known - layout.epochs.begin()) + 1;
  if (known == layout.epochs.end()) layout.epochs.push_back(epochs);
  if (layout.epochs.size() >= Layout::kSchedules) {
    fail_usage("--group: at most {} different numbers of epochs are possible. Reuse one.",
               Layout::kSchedules - 1);
  }
  return place;
}

}  // namespace

const ParameterGroup* group_of(const std::string& name, std::span<const ParameterGroup> groups) {
  for (const ParameterGroup& group : groups)
    if (matches(group.pattern, name)) return &group;
  return nullptr;
}

void apply_groups(std::span<const ParameterGroup> groups, Layout& layout) {
  std::vector<bool> used(groups.size());
  for (Parameter& parameter : layout.parameters) {
    const ParameterGroup* group = parameter.trained() ? group_of(parameter.name, groups) : nullptr;
    if (group == nullptr) continue;
    used[group - groups.data()] = true;
    parameter.rate *= group->rate;
    parameter.decay = group->decay;
    parameter.schedule = schedule_of(group->epochs, layout);
  }
  const auto unused = std::ranges::find(used, false);
  if (unused != used.end()) fail_empty(groups[unused - used.begin()], layout);
}

ParameterGroup parse_group(const std::string& text) {
  // The last colon, because a pattern may contain one and a setting does not.
  const std::size_t colon = text.rfind(':');
  if (colon == 0 || colon == text.npos || colon + 1 == text.size()) {
    fail_usage(
        "--group: \"{}\" is not PATTERN:NAME=VALUE,... An example is "
        "'conv*:lr=0.1,weight-decay=0'.",
        text);
  }
  ParameterGroup group;
  group.pattern = text.substr(0, colon);
  std::optional<float> rate, epochs;
  const std::map<std::string_view, std::optional<float>*> settings{
      {"lr", &rate}, {"weight-decay", &group.decay}, {"epochs", &epochs}};
  for (const std::string& word : split(text.substr(colon + 1), ',')) {
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string name = word.substr(0, equals),
                      value = word.substr(std::min(equals + 1, word.size()));
    const auto setting = settings.find(name);
    if (setting == settings.end()) {
      fail_usage(
          "--group {}: \"{}\" is not a setting. Pass lr=FACTOR, weight-decay=NUMBER or "
          "epochs=NUMBER.",
          group.pattern, word);
    }
    std::optional<float>& number = *setting->second;
    if (number) fail_usage("--group {}: {} is given twice", group.pattern, name);
    number = parse_number<float>(fmt::format("--group {}: {}", group.pattern, name), value,
                                 Bounds::at_least(0));
  }
  group.rate = rate.value_or(1);
  group.epochs = epochs.value_or(0);
  return group;
}

}  // namespace lockstep
