// Evaluation on a whole data set, shared among the ranks, with the same exact result on any number
// of them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/evaluate/mean_of_views.h"
#include "apps/evaluate/measures.h"
#include "apps/evaluate/predictions.h"
#include "collectives/comm/comm.h"
#include "net/checkpoint.h"
#include "net/model.h"
#include "src/data/dataset.h"
#include "src/data/resident.h"
#include "src/device/arena.h"

namespace lockstep {

/// A network's samples and their logits, as floats in rows.
struct Answers {
  Shape sample_shape;
  std::vector<float> samples, labels, logits;
};

/// Collective. On rank 0: the damaged samples that ranks have skipped since the last call, each
/// once; none elsewhere. `data` is any set of the run.
std::vector<std::string> newly_skipped(const Comm& comm, const Dataset& data);

/// An inference model with its batch buffer. The batches are always the same, batch_size()
/// consecutive samples each, and the sums over the ranks are integers. The ranks only divide the
/// batches.
class Evaluation {
 public:
  /// Most samples of a batch in the host's memory. An asynchronous device needs more to be busy.
  static constexpr std::int64_t kBatch = 100, kDeviceBatch = 1000;

  /// kBatch or kDeviceBatch samples, but of large images fewer: 16 photos of 224 pixels in the
  /// host's memory, so that the ranks share the work on few photos.
  static std::int64_t batch_size(const Device& device, const Dataset& dataset);

  /// With `views` the logits of an image are those of MeanOfViews. Throws the usage Error if
  /// samples are no images.
  Evaluation(Device& device, const ModelEntry& entry, const Dataset& dataset, Type type,
             bool views = false);
  ~Evaluation();

  const Model& model() const { return model_; }
  /// From now on evaluates another set of the same samples and classes, which outlives this.
  void change_to(const Dataset& dataset);
  std::size_t bytes() const;
  /// From now on each run() finds the `most` worst mistakes, by loss, then by sample. They are the
  /// same on any number of ranks, because logits are. Rows that are not finite are left out.
  void find_mistakes(std::size_t most) { most_mistakes_ = most; }
  /// From now on each run() counts probabilities.
  void count_probabilities() { probabilities_.emplace(dataset_->classes()); }
  /// From now on each run() passes all samples to `file`, the same on all ranks, which outlives it.
  void write_predictions(PredictionFile& file) { predictions_ = &file; }
  /// Stream::after_each() of its stream.
  void after_each(std::function<void()> done) { stream_->after_each(std::move(done)); }

  /// Collective. Loads `section` of `checkpoint`, which rank 0 has open, into memory of the device;
  /// other ranks pass null. Returns it for run(), valid until the next load(). Throws AgreedError
  /// that names the file.
  float* load(const Comm& comm, const Checkpoint* checkpoint, const std::string& section);

  /// Collective. Evaluates `parameters`, layout().count floats in memory of the device, the same on
  /// all ranks. They must stay valid until the next call. Every rank gets the sums. Damaged samples
  /// that the data set skips do not count. Throws AgreedError if a rank cannot read its samples, or
  /// if all are damaged. After each batch every rank calls `keep_going` with the share of the data
  /// set that is done. If it returns false on one rank, all ranks stop at once. None: they stopped.
  std::optional<EvaluationResult> run(const Comm& comm, float* parameters,
                                      const std::function<bool(double)>& keep_going);

  /// Local, after run(): the first samples of the data set, at most kBatch and a batch.
  Answers first_batch();

 private:
  /// Enqueues the work that scores samples `first` to first + count - 1, those of rows_. Returns
  /// their logits; empty: all of them are damaged. With `later` the work adds the number in
  /// position_ to `first` when it runs.
  View score_batch(std::int64_t first, std::int64_t count, bool later = false);
  /// The same for a whole batch, as a graph if the device gains from it.
  View repeat_batch(std::int64_t number);
  /// The same logits in memory of the host, when they are ready.
  View on_host(View logits);
  /// Reads the samples of rows_ on the host and enqueues their copy. Damaged ones leave rows_.
  void copy_batch(View images);

  Device& device_;
  const Dataset* dataset_;
  Model model_;
  const std::int64_t batch_;
  std::unique_ptr<Stream> stream_;
  /// Places of a batch, and of sums: a Score, then the confusion table.
  std::size_t images_, labels_, sums_, sums_bytes_;
  Arena arena_;     ///< with these places
  Memory weights_;  ///< of load()
  Memory host_;     ///< on the host, with the same places
  /// Null: the device's memory is the host's, or the data set does not fit into it. Then the host
  /// reads each batch.
  std::unique_ptr<ResidentSet> resident_;
  /// The first sample of each batch, on the host; the one of the graph's batch, on the device.
  Memory firsts_, first_;
  /// The work that scores a whole batch.
  struct Captured {
    const float* parameters = nullptr;  ///< that it reads
    std::unique_ptr<Graph> graph;
    View logits = {};
  } captured_;
  std::optional<MeanOfViews> views_;
  std::vector<std::int64_t> rows_;  ///< the samples of the batch
  std::size_t most_mistakes_ = 0;
  std::vector<Mistake> mistakes_;  ///< of this rank, the worst first
  std::optional<ProbabilityCounts> probabilities_;
  PredictionFile* predictions_ = nullptr;
  Memory answers_;  ///< logits of a batch on the host, of a device
};

}  // namespace lockstep
