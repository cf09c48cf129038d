// Which samples a model accepts.

#include <algorithm>

#include "net/model.h"
#include "src/base/check.h"

namespace lockstep {

bool ModelEntry::fits(Shape other) const {
  if (other.with_batch(1) == sample) return true;
  if (!any_image || other.rank() != sample.rank()) return false;
  return std::min(other[1], words ? other[1] : other[2]) >= smallest;
}

/// " and other images of at least 32 x 32 pixels"
static std::string others(const ModelEntry& entry) {
  if (!entry.any_image) return "";
  if (entry.words) return fmt::format(" and other texts of at least {} words", entry.smallest);
  if (entry.smallest == 1) return " and other images";
  return fmt::format(" and other images of at least {0} x {0} pixels", entry.smallest);
}

void require_fit(const ModelEntry& entry, Shape sample) {
  if (entry.fits(sample)) return;
  std::vector<std::string_view> fitting;
  for (const ModelEntry& other : models()) {
    if (other.fits(sample)) fitting.push_back(other.name);
  }
  fail_usage("the model {} needs samples of {}{}, and this data set has {}. {}", entry.name,
             entry.sample.text(), others(entry), sample.with_batch(1).text(),
             fitting.empty() ? "No model in --list accepts them. Choose another --dataset."
                             : fmt::format("Pass --model {}, or choose another --dataset.",
                                           fmt::join(fitting, " or ")));
}

}  // namespace lockstep
