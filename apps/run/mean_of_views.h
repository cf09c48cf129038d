// The mean logits of images over their views, --test-views (apps/run/test_views.h).
#pragma once

#include <cstdint>
#include <vector>

#include "net/model.h"
#include "src/device/arena.h"

namespace lockstep {

/// The mean over all of kTestViews, and of certain images over the first ones. An image's mean is
/// the same in any batch. One thread at a time.
class MeanOfViews {
 public:
  /// For batches of `model`. It and the device outlive this.
  MeanOfViews(Device& device, Model& model, int classes);
  std::size_t bytes() const { return arena_.bytes(); }

  /// Enqueues the mean of a batch in fp32, valid until the next call. All views of all images are
  /// computed, so that the work is always the same.
  View of_batch(Stream& stream, View images);

  /// Forgets the images of add().
  void clear();
  /// Only if the memory is the host's: computes the first views of a batch, `samples` that are the
  /// first rows of `images`. The other views are computed as soon as uncertain images fill a batch.
  void add(Stream& stream, View images, const std::vector<std::int64_t>& samples);
  /// Computes what is missing. Returns the mean of samples() in fp32, valid until the next add().
  View finish(Stream& stream);
  /// Those added since clear(), in order.
  const std::vector<std::int64_t>& samples() const { return samples_; }

 private:
  /// Enqueues sums = before + the weighted logits of kTestViews from `begin` to `end`.
  void add_views(Stream& stream, View images, std::size_t begin, std::size_t end, View before,
                 View sums);
  void finish_waiting(Stream& stream);
  View logits(std::size_t place) const {
    return arena_.view(place, {model_.input()[0], classes_}, Type::f32);
  }

  Model& model_;
  const std::int64_t classes_;
  /// Places of a batch: one view, logits of the first views and of all, uncertain images that wait.
  std::size_t seen_, first_, mean_, waiting_ = 0;
  Arena arena_;
  std::vector<std::int64_t> samples_;
  std::vector<float> means_;             ///< of samples_; rows of images that wait are unset
  std::vector<std::int64_t> uncertain_;  ///< the rows of the images that wait
};

}  // namespace lockstep
