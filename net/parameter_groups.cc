#include "net/parameter_groups.h"

#include <fnmatch.h>

#include <algorithm>

#include "src/base/check.h"

namespace lockstep {
namespace {

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

/// Throws: no parameter has come to `group`.
[[noreturn]] void fail_empty(const ParameterGroup& group, const Layout& layout) {
  std::vector<std::string_view> names;
  for (const Parameter& parameter : layout.parameters) {
    if (!parameter.trained()) continue;
    if (matches(group.pattern, parameter.name)) {
      fail_usage(
          "--group {}: groups before it have all the parameters that it names, and the first "
          "counts",
          group.pattern);
    }
    names.push_back(parameter.name);
  }
  std::reverse(names.begin(), names.end());
  fail_usage("--group {}: no parameter has such a name; there are {}", group.pattern,
             fmt::join(names, ", "));
}

/// Parameter::schedule of a group with `epochs`.
int schedule_of(double epochs, Layout& layout) {
  if (epochs == 0) return 0;
  const auto known = std::find(layout.epochs.begin(), layout.epochs.end(), epochs);
  const auto place = static_cast<int>(known - layout.epochs.begin()) + 1;
  if (known == layout.epochs.end()) layout.epochs.push_back(epochs);
  if (layout.epochs.size() >= Layout::kSchedules) {
    fail_usage("--group: at most {} different numbers of epochs can be told apart",
               Layout::kSchedules - 1);
  }
  return place;
}

}  // namespace

const ParameterGroup* group_of(std::string_view name, std::span<const ParameterGroup> groups) {
  const auto found = std::find_if(groups.begin(), groups.end(),
                                  [name = std::string(name)](const ParameterGroup& group) {
                                    return matches(group.pattern, name);
                                  });
  return found == groups.end() ? nullptr : &*found;
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
  const auto unused = std::find(used.begin(), used.end(), false);
  if (unused != used.end()) fail_empty(groups[unused - used.begin()], layout);
}

}  // namespace lockstep
