// Evaluation on a whole data set, shared out over the ranks, with one exact result whatever their
// number.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "collectives/comm/comm.h"
#include "net/loss.h"
#include "net/model.h"
#include "src/data/dataset.h"
#include "src/data/resident.h"
#include "src/device/arena.h"

namespace lockstep {

/// confusion[truth * classes + predicted]: how many samples of a class were taken for which.
struct EvaluationResult {
  Score score;
  std::vector<std::int64_t> confusion;
};

/// What a network says of some samples, as floats.
struct Answers {
  Shape sample_shape;
  /// In rows: what it is given, and logits of all classes.
  std::vector<float> samples, labels, logits;
};

/// An inference model with its batch buffer. The batches are always the same ones, kBatch
/// consecutive samples each; only who computes them depends on the ranks, and what is summed over
/// the ranks are integers.
class Evaluation {
 public:
  static constexpr std::int64_t kBatch = 100;

  /// With `views` the logits of an image are the weighted mean of those of kTestViews; throws the
  /// usage Error where samples are no images.
  Evaluation(Device& device, const ModelEntry& entry, const Dataset& dataset, Type type,
             bool views = false);
  ~Evaluation();

  const Model& model() const { return model_; }
  std::size_t bytes() const;
  /// Stream::after_each() of the stream that it works on.
  void after_each(std::function<void()> done) { stream_->after_each(std::move(done)); }

  /// Collective. Evaluates `parameters` (layout().count floats, the same on all ranks); every rank
  /// gets the sums. After each batch `go_on` is called on every rank with the share of the data set
  /// that is done; where one of the ranks says no, all give up at once and get nothing.
  std::optional<EvaluationResult> run(const Comm& comm, float* parameters,
                                      const std::function<bool(double)>& go_on);

  /// Local, after run(): of the first samples of the data set, at most kBatch.
  Answers first_batch();

 private:
  /// Gives the work that scores samples `first` to first + count - 1; their logits.
  View score_batch(std::int64_t first, std::int64_t count);
  View mean_of_views(View images);
  /// Reads them on the host and gives their copy.
  void copy_batch(std::int64_t first, std::int64_t count, View images);

  Device& device_;
  const Dataset& dataset_;
  Model model_;
  std::unique_ptr<Stream> stream_;
  /// Places of a batch, and of sums: a Score, then the confusion table.
  std::size_t images_, labels_, sums_, sums_bytes_;
  bool views_;
  /// With views: places of a batch as one of them, and of the mean of logits in fp32.
  std::size_t view_ = 0, mean_ = 0;
  Arena arena_;  ///< with these places
  Memory host_;  ///< the host's, with the same places
  /// Null where the device's memory is the host's, or the data set does not fit there: then the
  /// host reads each batch.
  std::unique_ptr<ResidentSet> resident_;
};

}  // namespace lockstep
