#include "apps/record/fact_words.h"

#include <string_view>
#include <vector>

#include "src/base/check.h"
#include "src/base/plural.h"
#include "src/base/text.h"

namespace lockstep {

using Json = nlohmann::ordered_json;

std::string words_of(const Json& value) {
  if (value.empty()) return kNotSet;
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::vector<std::string> parts;
  for (const Json& part : value) parts.push_back(words_of(part));
  return fmt::format("{}", fmt::join(parts, ", "));
}

Json cleaned(const Json& value) {
  // A file may be damaged or of a stranger, and its texts reach terminals.
  if (value.is_string()) return printable(value.get<std::string>());
  if (!value.is_structured()) return value;
  Json result = value;
  for (Json& part : result) part = cleaned(part);
  return result;
}

std::string order_words(const Json& order) {
  if (order.contains("canonical")) return "canonical";
  try {
    return fmt::format(
        "that of {} on {}{} in buckets of {:g} MiB{}", order.at("reducer").get<std::string>(),
        counted(order.at("ranks").get<int>(), "rank"),
        order.contains("shares") ? fmt::format(" with the shares {}", order["shares"].dump()) : "",
        order.at("bucket_mb").get<double>(),
        order.contains("ctas") ? fmt::format(" with {} CTAs", order["ctas"].dump()) : "");
  } catch (const Json::exception&) {  // of a damaged checkpoint
    return order.dump();
  }
}

std::string network_words(const Json& text) {
  return text == "" ? "a built-in network" : "a network of a file";
}

std::string statistics_text(const std::string& statistics) {
  constexpr std::string_view kMicroBatch = "micro_batch_of_";
  if (statistics == "shard") return "each shard";
  if (statistics == "global_batch") return "the global batch";
  if (!statistics.starts_with(kMicroBatch)) return statistics;
  return fmt::format("one of {} accumulated batches", statistics.substr(kMicroBatch.size()));
}

}  // namespace lockstep
