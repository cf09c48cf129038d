#include "apps/options/group_option.h"

#include "apps/options/option_set.h"
#include "src/base/check.h"

namespace lockstep {

ParameterGroup parse_group(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == 0 || colon == text.npos || colon + 1 == text.size()) {
    fail_usage("--group: \"{}\" is not PATTERN:NAME=VALUE,..., as in 'conv*:lr=0.1,weight-decay=0'",
               text);
  }
  ParameterGroup group;
  group.pattern = text.substr(0, colon);
  std::optional<float> rate, epochs;
  for (std::size_t begin = colon + 1, end; begin <= text.size(); begin = end + 1) {
    end = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string name = word.substr(0, equals),
                      value = word.substr(std::min(equals + 1, word.size()));
    if (name != "lr" && name != "weight-decay" && name != "epochs") {
      fail_usage(
          "--group {}: \"{}\" is neither lr=FACTOR nor weight-decay=NUMBER nor epochs=NUMBER",
          group.pattern, word);
    }
    std::optional<float>& number = name == "lr" ? rate : name == "epochs" ? epochs : group.decay;
    if (number) fail_usage("--group {}: {} stands there twice", group.pattern, name);
    number = parse_number<float>(fmt::format("--group {}: {}", group.pattern, name), value,
                                 Bounds::at_least(0));
  }
  group.rate = rate.value_or(1);
  group.epochs = epochs.value_or(0);
  return group;
}

}  // namespace lockstep
