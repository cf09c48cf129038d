#include "apps/evaluate/evaluation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>
#include <span>
#include <type_traits>
#include <utility>

#include "apps/step/replica_check.h"
#include "src/base/check.h"
#include "src/base/elementary.h"
#include "src/base/round_up.h"
#include "src/base/text.h"
#include "src/data/read_in_parallel.h"

// A batch takes one of three ways. The host reads it and copies it to the device. A device that
// holds the data set gathers it there. If the device gains from it, that work is captured once and
// repeated. All ways add to the same sums, which the host reads once, at the end.
namespace lockstep {
namespace {

bool worse(const Mistake& a, const Mistake& b) {
  return a.loss != b.loss ? a.loss > b.loss : a.sample < b.sample;
}

/// Adds it to `worst`, which keeps `most`.
void add(const Mistake& mistake, std::size_t most, std::vector<Mistake>& worst) {
  worst.insert(std::ranges::lower_bound(worst, mistake, worse), mistake);
  worst.resize(std::min(worst.size(), most));
}

/// The mistake in a row of logits; none: the row is right, or not finite.
std::optional<Mistake> mistake_of(std::int64_t sample, std::int32_t label,
                                  std::span<const double> logits) {
  const auto highest = std::ranges::max_element(logits);
  const auto predicted = static_cast<std::int32_t>(highest - logits.begin());
  if (predicted == label) return {};
  double sum = 0;
  for (const double value : logits) sum += exponential(value - *highest);
  const double loss = natural_log(sum) + (*highest - logits[label]);
  if (!std::isfinite(loss)) return {};
  return Mistake{sample, label, predicted, loss, 1 / sum};
}

/// Collective. The worst ones of all ranks on rank 0; none elsewhere.
std::vector<Mistake> worst_of_all(const Comm& comm, const std::vector<Mistake>& own,
                                  std::size_t most) {
  static_assert(std::is_trivially_copyable_v<Mistake>, "it travels as bytes");
  std::vector<Mistake> worst;
  for (const std::string& bytes :
       comm.gather({reinterpret_cast<const char*>(own.data()), own.size() * sizeof(Mistake)})) {
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(Mistake)) {
      Mistake mistake;
      std::memcpy(&mistake, &bytes[i], sizeof mistake);
      add(mistake, most, worst);
    }
  }
  return worst;
}

/// `count` numbers from `first` on.
std::vector<std::int64_t> from(std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

}  // namespace

std::vector<std::string> newly_skipped(const Comm& comm, const Dataset& data) {
  DamageLog* const log = data.damage();
  if (log == nullptr) return {};
  std::set<std::string> all;
  for (const std::string& some : comm.gather(fmt::format("{}", fmt::join(log->take(), "\n"))))
    for (const std::string& fact : lines_of(some)) all.insert(fact);
  return {all.begin(), all.end()};
}

Evaluation::Evaluation(Device& device, const ModelEntry& entry, const Dataset& dataset, Type type,
                       bool views)
    : device_(device),
      dataset_(nullptr),
      model_(device, entry, dataset.sample_shape().with_batch(batch_size(device, dataset)),
             dataset.classes(), type, false),
      batch_(model_.input()[0]),
      stream_(device.stream()) {
  if (views && dataset.sample_shape().rank() != 4)
    fail_usage("--test-views needs images, and this data set has none. Omit it.");
  const auto classes = static_cast<std::size_t>(dataset.classes());
  sums_bytes_ = sizeof(Score) + classes * classes * sizeof(std::int64_t);
  images_ = arena_.reserve(static_cast<std::size_t>(model_.input().count()) *
                           size_of(model_.input_type()));
  labels_ = arena_.reserve(static_cast<std::size_t>(batch_) * sizeof(std::int32_t));
  sums_ = arena_.reserve(sums_bytes_);
  arena_.allocate(device);
  if (views) views_.emplace(device, model_, dataset.classes());
  host_ = device.allocate(arena_.bytes(), Place::host);
  change_to(dataset);
}

void Evaluation::change_to(const Dataset& dataset) {
  dataset_ = &dataset;
  captured_.graph.reset();  // it reads the former data set
  resident_.reset();
  if (device_.traits().memory_is_host || !ResidentSet::possible(dataset)) return;
  try {
    resident_ = std::make_unique<ResidentSet>(device_, dataset);
  } catch (const OutOfMemory&) {
    return;
  }
  const std::int64_t batches = dataset.size() / batch_;
  firsts_ = device_.allocate(static_cast<std::size_t>(batches) * sizeof(std::int64_t), Place::host);
  first_ = device_.allocate(sizeof(std::int64_t), Place::device);
  for (std::int64_t i = 0; i < batches; ++i)
    reinterpret_cast<std::int64_t*>(firsts_.get())[i] = i * batch_;
}

std::int64_t Evaluation::batch_size(const Device& device, const Dataset& dataset) {
  constexpr std::int64_t kValues = 1 << 25;  // of all samples: photos have 150,000
  const std::int64_t each = dataset.sample_shape().count();
  if (device.traits().memory_is_host)
    return std::clamp<std::int64_t>(kValues / 16 / each, 16, kBatch);
  return std::clamp(std::min(kValues / each, dataset.size()), kBatch, kDeviceBatch);
}

Evaluation::~Evaluation() {
  try {  // a stopped evaluation has left work in the stream
    stream_->synchronize();
  } catch (...) {  // the caller who waited for the result has seen it
  }
}

std::size_t Evaluation::bytes() const {
  return model_.activation_bytes() + model_.workspace_bytes() + 2 * arena_.bytes() +
         (resident_ ? resident_->bytes() : 0) + (views_ ? views_->bytes() : 0);
}

void Evaluation::copy_batch(View images) {
  const std::size_t sample_bytes = images.shape.row() * size_of(images.type);
  const auto place = [&](std::size_t row) { return host_.get() + images_ + row * sample_bytes; };
  std::vector<char> whole(rows_.size());
  stream_->synchronize();  // the copy of the batch before is done
  const auto read = [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      whole[i] = dataset_->read_if_whole(rows_[i], nullptr, place(i), images.type);
  };
  with_exit_code(kExitData,
                 [&] { read_in_parallel(stream_->threads(), std::ssize(rows_), 8, read); });
  // Samples behind a damaged one move up, so that the rows of the batch have no gap. The labels
  // follow rows_.
  std::size_t kept = 0;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (!whole[i]) continue;
    if (kept < i) std::memcpy(place(kept), place(i), sample_bytes);
    rows_[kept++] = rows_[i];
  }
  rows_.resize(kept);
  auto* host_labels = reinterpret_cast<std::int32_t*>(host_.get() + labels_);
  for (const std::int64_t sample : rows_) *host_labels++ = dataset_->label(sample);
  // Labels follow the images in both memories, so one copy moves both.
  device_.copy(*stream_, arena_.at(images_), host_.get() + images_, sums_ - images_);
}

View Evaluation::score_batch(std::int64_t first, std::int64_t count, bool later) {
  const View images = arena_.view(images_, model_.input(), model_.input_type());
  if (!resident_) {
    copy_batch(images);
    count = std::ssize(rows_);
    if (count == 0) return {};
  }
  const View labels = arena_.view(labels_, {count}, Type::i32);
  if (resident_) {
    const auto* position = later ? reinterpret_cast<const std::int64_t*>(first_.get()) : nullptr;
    resident_->enqueue_batch(*stream_, {.position = position, .offset = first}, {images, labels});
  }
  View logits = views_ ? views_->of_batch(*stream_, images) : model_.forward(*stream_, images);
  // The model always computes a whole batch. The rows beyond `count` are left from an earlier one,
  // and no sum reads them.
  logits.shape = logits.shape.with_batch(count);
  auto* sums = static_cast<Score*>(arena_.at(sums_));
  softmax_cross_entropy(*stream_, {.logits = logits,
                                   .labels = labels,
                                   .score = sums,
                                   .confusion = reinterpret_cast<std::int64_t*>(sums + 1)});
  return logits;
}

View Evaluation::repeat_batch(std::int64_t number) {
  // Each batch has its own number in firsts_, because the copy may run later. A single place could
  // be overwritten before it is read.
  device_.copy(*stream_, first_.get(), firsts_.get() + number * sizeof(std::int64_t),
               sizeof(std::int64_t));
  if (!captured_.graph) {
    captured_.graph = device_.capture(
        *stream_, [&] { captured_.logits = score_batch(0, batch_, /*later=*/true); });
  }
  if (!captured_.graph) return score_batch(0, batch_, /*later=*/true);
  captured_.graph->launch(*stream_);
  return captured_.logits;
}

View Evaluation::on_host(View logits) {
  if (!device_.traits().memory_is_host) {
    if (!answers_)
      answers_ = device_.allocate(logits.shape.with_batch(batch_).count() * size_of(logits.type),
                                  Place::host);
    device_.copy(*stream_, answers_.get(), logits.data, logits.bytes());
    logits.data = answers_.get();
  }
  stream_->synchronize();
  return logits;
}

Answers Evaluation::first_batch() {
  const std::int64_t count = std::min({kBatch, batch_, dataset_->size()});
  rows_ = from(0, count);
  const View logits = score_batch(0, count);
  require(bool(logits), "the first {} samples are damaged. Replace their files.", count);
  if (resident_)  // the host has not seen the samples
    device_.copy(*stream_, host_.get() + images_, arena_.at(images_), sums_ - images_);
  Answers answers{dataset_->sample_shape(), {}, {}, {}};
  for_each_row(on_host(logits), [&](std::span<const double> row) {
    answers.logits.insert(answers.logits.end(), row.begin(), row.end());
  });
  for (const std::int64_t row : rows_)
    answers.labels.push_back(static_cast<float>(dataset_->label(row)));
  const auto append = [&]<class T>(T*) {
    const T* const from = reinterpret_cast<const T*>(host_.get() + images_);
    answers.samples.assign(from, from + std::ssize(rows_) * answers.sample_shape.count());
  };
  if (model_.input_type() == Type::i32) {
    append(static_cast<std::int32_t*>(nullptr));
  } else {
    dispatch(model_.input_type(), append);
  }
  return answers;
}

float* Evaluation::load(const Comm& comm, const Checkpoint* checkpoint,
                        const std::string& section) {
  weights_ = load_on_devices(comm, checkpoint, model_.layout(), section, device_);
  return reinterpret_cast<float*>(weights_.get());
}

/// In each round every rank scores one batch. Ranks without a batch go through the round too,
/// because its calls are collective. The score and the confusion table are integers, so the sums do
/// not depend on the ranks. A device runs ahead of the host unless logits are looked at row by row.
/// A captured batch contains the address of the weights, and goes when these lie elsewhere.
std::optional<EvaluationResult> Evaluation::run(const Comm& comm, float* parameters,
                                                const std::function<bool(double)>& keep_going) {
  model_.bind(parameters, nullptr);
  std::byte* host_sums = host_.get() + sums_;
  std::memset(host_sums, 0, sums_bytes_);
  device_.copy(*stream_, arena_.at(sums_), host_sums, sums_bytes_);
  if (std::exchange(captured_.parameters, parameters) != parameters) captured_.graph.reset();
  mistakes_.clear();
  if (probabilities_) count_probabilities();
  const std::int64_t batches = ceil_div(dataset_->size(), batch_);
  for (std::int64_t round = 0; round < batches; round += comm.size()) {
    const std::int64_t first = (round + comm.rank()) * batch_,
                       count = std::clamp<std::int64_t>(dataset_->size() - first, 0, batch_);
    std::string predicted;
    agree(comm, [&] {
      rows_ = from(first, count);
      View logits;
      if (count > 0) {
        // The first batch may do work that is done only once. The others are repeated.
        const bool repeats = resident_ && round > 0 && count == batch_;
        logits = repeats ? repeat_batch(first / batch_) : score_batch(first, count);
      }
      if (!logits || !(most_mistakes_ > 0 || predictions_ || probabilities_)) return;
      auto sample = rows_.begin();
      for_each_row(on_host(logits), [&](std::span<const double> row) {
        const std::int32_t label = dataset_->label(*sample);
        if (probabilities_) probabilities_->add(probabilities_of(row), label);
        if (const auto mistake = mistake_of(*sample, label, row))
          add(*mistake, most_mistakes_, mistakes_);
        if (predictions_) predicted += predictions_->row(*dataset_, *sample, row);
        ++sample;
      });
    });
    if (predictions_) predictions_->append(comm, predicted);
    const std::int64_t done = std::min(round + comm.size(), batches);
    const bool enough = !keep_going(static_cast<double>(done) / static_cast<double>(batches));
    if (comm.max(enough) > 0) return std::nullopt;
  }
  device_.copy(*stream_, host_sums, arena_.at(sums_), sums_bytes_);
  stream_->synchronize();
  static_assert(sizeof(Score) % sizeof(std::int64_t) == 0, "a row of counts");
  comm.sum({reinterpret_cast<std::int64_t*>(host_sums), sums_bytes_ / sizeof(std::int64_t)});
  EvaluationResult result;
  std::memcpy(&result.score, host_sums, sizeof(Score));
  if (result.score.samples == 0)
    throw AgreedError("all samples of the evaluation are damaged. Replace their files.");
  const auto* cells = reinterpret_cast<const std::int64_t*>(host_sums + sizeof(Score));
  result.confusion.assign(cells, cells + std::int64_t{dataset_->classes()} * dataset_->classes());
  if (probabilities_) {
    comm.sum(probabilities_->all());
    result.probabilities = probabilities_;
  }
  if (most_mistakes_ > 0) result.mistakes = worst_of_all(comm, mistakes_, most_mistakes_);
  return result;
}

}  // namespace lockstep
