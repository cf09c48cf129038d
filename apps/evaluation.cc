#include "apps/evaluation.h"

#include <algorithm>

#include "src/cpu/parallel_for.h"

namespace lockstep {

Evaluation::Evaluation(Device& device, const ModelEntry& entry, const Dataset& dataset, Type type)
    : device_(device),
      dataset_(dataset),
      model_(device, entry, dataset.sample_shape(), dataset.classes(), kBatch, type, false),
      images_(device.allocate(static_cast<std::size_t>(model_.input().count()) * size_of(type),
                              Place::device)),
      labels_(kBatch),
      results_(kBatch) {}

std::size_t Evaluation::bytes() const {
  return model_.activation_bytes() + model_.workspace_bytes() +
         static_cast<std::size_t>(model_.input().count()) * size_of(model_.type());
}

std::optional<EvaluationResult> Evaluation::run(const Comm& comm, float* parameters,
                                                const std::function<bool(double)>& go_on) {
  const std::unique_ptr<Stream> own = device_.stream();
  Stream& stream = *own;
  model_.bind(parameters, nullptr);
  const View images{images_.get(), model_.input(), model_.type()};
  const View labels{labels_.data(), {kBatch}, Type::i32};
  const std::size_t sample_bytes =
      static_cast<std::size_t>(images.shape.row()) * size_of(images.type);
  const std::int64_t classes = dataset_.classes(),
                     batches = (dataset_.size() + kBatch - 1) / kBatch;

  EvaluationResult result;
  result.confusion.assign(static_cast<std::size_t>(classes * classes), 0);
  for (std::int64_t round = 0; round < batches; round += comm.size()) {
    const std::int64_t first = (round + comm.rank()) * kBatch,
                       count = std::min(kBatch, dataset_.size() - first);
    if (count > 0) {
      parallel_for(stream.threads(), count, 8, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          dataset_.read(first + i, nullptr,
                        images_.get() + static_cast<std::size_t>(i) * sample_bytes, images.type);
          labels_[static_cast<std::size_t>(i)] = dataset_.label(first + i);
        }
      });
      softmax_cross_entropy(stream, model_.forward(stream, images), labels, 0, {}, results_);
      for (std::int64_t i = 0; i < count; ++i) {
        const SampleResult& sample = results_[static_cast<std::size_t>(i)];
        result.score.add(sample);
        ++result.confusion[static_cast<std::size_t>(labels_[static_cast<std::size_t>(i)] * classes +
                                                    sample.predicted)];
      }
    }
    const std::int64_t done = std::min(round + comm.size(), batches);
    const bool enough = !go_on(static_cast<double>(done) / static_cast<double>(batches));
    if (comm.max(enough) > 0) return std::nullopt;
  }
  Score& score = result.score;
  std::vector<std::int64_t> sums = result.confusion;
  sums.insert(sums.end(),
              {score.samples, score.top1, score.top5, score.loss_units, score.diverged});
  comm.sum(sums);
  std::copy_n(sums.begin(), result.confusion.size(), result.confusion.begin());
  const std::int64_t* total = sums.data() + result.confusion.size();
  score = {total[0], total[1], total[2], total[3], total[4]};
  return result;
}

}  // namespace lockstep
