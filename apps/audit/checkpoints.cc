#include "apps/audit/checkpoints.h"

#include <algorithm>
#include <cmath>

#include "apps/record/weights_hash.h"
#include "net/checkpoint.h"
#include "src/base/check.h"
#include "src/files/file.h"
#include "src/files/hdf5.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

}  // namespace

AuditedCheckpoints hash_checkpoints(const fs::path& folder) {
  AuditedCheckpoints result;
  for (const fs::path& file : list_checkpoints(folder)) {
    try {
      result.hashes.push_back({read_metadata(file).position.step, LoggedValue::kWeights,
                               weights_sha256(file), file.filename().string()});
    } catch (const UnreadableFile&) {
      throw;
    } catch (const Error& error) {
      result.damage.emplace_back(error.what());
    }
  }
  std::ranges::sort(result.hashes, {}, &LoggedValue::step);
  return result;
}

std::string largest_difference(const fs::path& one, const fs::path& other) {
  const Hdf5Reader first(one), second(other);
  double most = 0;
  std::string where;
  for (const std::string& name : first.arrays()) {
    if (!name.starts_with("parameters/")) continue;
    const std::vector<float> a = first.values(name), b = second.values(name);
    require(a.size() == b.size(), "{} and {} are of different networks. Compare others.",
            one.string(), other.string());
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double difference = std::abs(static_cast<double>(a[i]) - b[i]);
      if (difference <= most) continue;
      most = difference;
      where = name.substr(name.find('/') + 1);
    }
  }
  return where.empty() ? "" : fmt::format("{:.3g} in {}", most, where);
}

std::vector<std::string> contradictions(const RunLog& log) {
  std::vector<std::string> result;
  const LoggedValue* first = nullptr;  // hash of the step
  for (const LoggedValue& value : log.values) {
    if (!value.is_hash()) continue;
    if (first == nullptr || first->step != value.step) {
      first = &value;
    } else if (first->value != value.value) {
      result.push_back(fmt::format("step {}: {} has the weights {}, and {} has {}", value.step,
                                   first->place, first->shown(), value.place, value.shown()));
    }
  }
  return result;
}

std::vector<Stretch> stretches_of(const RunLog& log, const std::vector<LoggedValue>& checkpoints,
                                  std::int64_t began) {
  std::vector<std::int64_t> states{began};
  for (const LoggedValue& checkpoint : checkpoints)
    if (checkpoint.step > states.back()) states.push_back(checkpoint.step);
  const std::vector<std::int64_t> hashed = log.hashed_steps();
  if (!hashed.empty() && hashed.back() > states.back()) states.push_back(hashed.back());
  std::vector<Stretch> stretches;
  for (std::size_t i = 1; i < states.size(); ++i) stretches.push_back({states[i - 1], states[i]});
  return stretches;
}

}  // namespace lockstep
