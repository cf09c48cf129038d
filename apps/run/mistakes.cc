#include "apps/run/mistakes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <type_traits>

namespace lockstep {
namespace {

bool worse(const Mistake& a, const Mistake& b) {
  return a.loss != b.loss ? a.loss > b.loss : a.sample < b.sample;
}

/// None: the row is right, or not finite.
template <class T>
std::optional<Mistake> mistake_of(const T* logits, std::int64_t classes, std::int32_t label) {
  const T* const highest = std::max_element(logits, logits + classes);
  const auto predicted = static_cast<std::int32_t>(highest - logits);
  if (predicted == label) return {};
  double sum = 0;
  for (std::int64_t c = 0; c < classes; ++c)
    sum += std::exp(static_cast<double>(logits[c]) - static_cast<double>(*highest));
  const double above = static_cast<double>(*highest) - static_cast<double>(logits[label]);
  Mistake mistake{.label = label,
                  .predicted = predicted,
                  .loss = std::log(sum) + above,
                  .probability = 1 / sum};
  if (!std::isfinite(mistake.loss)) return {};
  return mistake;
}

}  // namespace

void WorstMistakes::add(const Mistake& mistake) {
  if (worst_.size() == most_ && !worse(mistake, worst_.back())) return;
  worst_.insert(std::lower_bound(worst_.begin(), worst_.end(), mistake, worse), mistake);
  if (worst_.size() > most_) worst_.pop_back();
}

void WorstMistakes::look(const Dataset& data, std::int64_t first, View logits) {
  const std::int64_t classes = logits.shape.row();
  dispatch(logits.type, [&](auto* tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    for (std::int64_t i = 0; i < logits.shape[0]; ++i) {
      auto mistake = mistake_of(logits.as<T>() + i * classes, classes, data.label(first + i));
      if (!mistake) continue;
      mistake->sample = first + i;
      add(*mistake);
    }
  });
}

std::vector<Mistake> WorstMistakes::of_all(const Comm& comm) const {
  static_assert(std::is_trivially_copyable_v<Mistake>, "it travels as bytes");
  const std::string own(reinterpret_cast<const char*>(worst_.data()),
                        worst_.size() * sizeof(Mistake));
  WorstMistakes all(most_);
  for (const std::string& bytes : comm.gather(own)) {
    std::vector<Mistake> some(bytes.size() / sizeof(Mistake));
    std::memcpy(some.data(), bytes.data(), bytes.size());
    for (const Mistake& mistake : some) all.add(mistake);
  }
  return all.worst_;
}

}  // namespace lockstep
