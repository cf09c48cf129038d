// Multi-head attention between the tokens of each sample. Queries, keys and values are copied to
// one matrix per sample and head; the device multiplies these. Backward needs the weights of the
// softmax again, so they are saved.
//
// Cores compute one sample after the other, in their caches. A GPU computes all samples at a time,
// so that the number of kernels does not depend on the batch. It pads each matrix with tokens of
// zeros, so that its rows begin at multiples of 16 bytes.
//
// Source: Vaswani et al., "Attention is all you need", NIPS 2017, 3.2.

#include <cmath>
#include <limits>
#include <utility>

#include "net/exponential.h"
#include "net/layers.h"
#include "src/device/each.h"
#include "src/device/team_sums.h"

namespace lockstep {
namespace {

/// Sequences of `length` tokens with `parts` matrices of `heads` * `size` features each. In heads a
/// sequence has `padded` tokens.
struct Extents {
  std::int64_t samples, length, padded, heads, size, parts;
};

/// Between tokens (samples, length, parts, heads, size) and heads (parts, samples, heads, padded,
/// size). A block is `size` features of a token in `to`.
template <class T, bool kToHeads>
struct Transpose {
  static constexpr int kWidth = 16 / sizeof(T);
  const T* from;
  T* to;
  Extents e;
  bool aligned() const { return aligned_for_packs<kWidth>(from, to); }

  template <int kMost, class Count>
  HOST_DEVICE void operator()(std::int64_t block, std::int64_t c, Count count) const {
    const std::int64_t matrices = e.parts * e.heads, tokens = kToHeads ? e.padded : e.length;
    const std::int64_t row = quotient(block, matrices), matrix = block - row * matrices;
    const std::int64_t sample = quotient(row, tokens), token = row - sample * tokens;
    const std::int64_t part = quotient(matrix, e.heads), head = matrix - part * e.heads;
    const std::int64_t in_heads =
        (((part * e.samples + sample) * e.heads + head) * e.padded + token) * e.size + c;
    const std::int64_t in_tokens = ((sample * e.length + token) * matrices + matrix) * e.size + c;
    T* const target = to + (kToHeads ? in_heads : in_tokens);
    if (kToHeads && token >= e.length) return write(target, count, [](int) { return 0.0f; });
    copy(from + (kToHeads ? in_tokens : in_heads), target, count);
  }

 private:
  template <class Count>
  HOST_DEVICE static void copy(const T* source, T* target, Count count) {
    if constexpr (kInRegisters<Count>) {
      using Columns = Pack<T, Count::value>;
      Columns::store(Columns::load(source), target);
    } else {
      for_columns(count, [&](int k) { target[k] = source[k]; });
    }
  }
};

/// Rows of scores and weights: `columns` of `padded` elements are in use, the rest are 0.
struct Width {
  std::int64_t columns, padded;
  template <class T, class Team>
  HOST_DEVICE void clear_rest(T* row, Team team) const {
    for (std::int64_t c = columns + team.lane; c < padded; c += team.lanes) row[c] = 0.0f;
  }
};

/// to[row] = softmax(scale * scores[row]).
template <class T>
struct Softmax {
  float* scores;
  T* to;
  Width width;
  float scale;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    float* score = scores + row * width.padded;
    T* const weights = to + row * width.padded;
    const float factor = scale,
                most = highest_of(team, width.columns, std::numeric_limits<float>::lowest(),
                                  [=](std::int64_t c) { return score[c]; });
    const auto power = [=](std::int64_t c) { return exp_of_negative(factor * (most - score[c])); };
    if constexpr (Team::lanes > 1) {  // a GPU computes them twice, because its memory is slower
      const float share = 1 / sum_of(team, width.columns, power);
      for (std::int64_t c = team.lane; c < width.columns; c += team.lanes)
        weights[c] = share * power(c);
    } else {
      for (std::int64_t c = 0; c < width.columns; ++c) score[c] = power(c);
      const float share =
          1 / sum_of(team, width.columns, [=](std::int64_t c) { return score[c]; });
      for (std::int64_t c = 0; c < width.columns; ++c) weights[c] = share * score[c];
    }
    width.clear_rest(weights, team);
  }
};

/// The gradient of the scores from `slopes`, that of the weights.
template <class T>
struct SoftmaxGradient {
  const T* weights;
  const float* slopes;
  T* to;
  Width width;
  float scale;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const T* const weight = weights + row * width.padded;
    const float* const slope = slopes + row * width.padded;
    T* const gradient = to + row * width.padded;
    const float sum = sum_of(team, width.columns, [=](std::int64_t c) {
      return static_cast<float>(weight[c]) * slope[c];
    });
    for (std::int64_t c = team.lane; c < width.columns; c += team.lanes)
      gradient[c] = scale * static_cast<float>(weight[c]) * (slope[c] - sum);
    width.clear_rest(gradient, team);
  }
};

class AttentionLayer : public Layer {
 public:
  explicit AttentionLayer(int heads) : heads_(heads) {}

  Shape setup(Setup& setup, Shape in) override {
    if (in.rank() != 3 || in[2] % (3 * heads_) != 0) {
      throw Error("the attention " + setup.name +
                  " needs N, L, C with queries, keys and values of " + std::to_string(heads_) +
                  " heads; its input is " + in.text());
    }
    setup.numbers = {{"heads", heads_}};
    samples_ = in[0];
    length_ = in[1];
    size_ = in[2] / 3 / heads_;
    type_ = setup.type;
    const bool on_gpu = setup.device.traits().lanes > 1;
    at_once_ = on_gpu ? samples_ : 1;
    padded_ = on_gpu ? round_up(length_, 8) : length_;
    plan(setup);
    const std::size_t size = size_of(type_);
    weights_bytes_ = Arena::aligned(scores_count() * size);
    // Only the weights. Backward copies queries, keys and values from x again.
    if (setup.training) weights_place_ = setup.save(samples_ / at_once_ * weights_bytes_);
    training_ = setup.training;
    // The scratch of the products is at the beginning (run()), and the matrices follow.
    std::size_t at = Arena::aligned(plan_bytes_);
    const auto next = [&](std::size_t bytes) {
      return std::exchange(at, at + Arena::aligned(bytes));
    };
    inputs_place_ = next(3 * matrix_count() * size);
    slopes_place_ = next(3 * matrix_count() * size);
    result_place_ = next(matrix_count() * size);
    scores_place_ = next(scores_count() * sizeof(float));
    other_weights_place_ = next(scores_count() * size);
    setup.scratch(at);
    return {samples_, length_, heads_ * size_};
  }

  void forward(LayerCall& call, View x, View y) override {
    dispatch(type_, [&]<class T>(T*) {
      for (std::int64_t sample = 0; sample < samples_; sample += at_once_) {
        const Matrices<T> m(*this, call, sample);
        to_heads(call, x.as<T>() + sample * x.shape.row(), m.q, 3);
        run<T, float>(call, *scores_, m.q, m.k, m.scores);
        each_row(*call.stream, rows(), length_,
                 Softmax<T>{m.scores, m.weights, {length_, padded_}, scale()});
        run<T, T>(call, *means_, m.weights, m.v, m.result);
        to_tokens(call, m.result, y.as<T>() + sample * y.shape.row(), 1);
      }
    });
  }

  void backward(LayerCall& call, View x, View, View dy, View dx) override {
    if (!dx) return;
    dispatch(type_, [&]<class T>(T*) {
      // With S the scores, W the saved weights and Y the result: dV = W^T dY and dW = dY V^T. The
      // softmax then makes dS of dW. Last, dQ = dS K and dK = dS^T Q. In memory dY and dW lie where
      // forward has Y and S.
      for (std::int64_t sample = 0; sample < samples_; sample += at_once_) {
        const Matrices<T> m(*this, call, sample);
        to_heads(call, x.as<T>() + sample * x.shape.row(), m.q, 3);
        to_heads(call, dy.as<T>() + sample * dy.shape.row(), m.result, 1);
        run<T, T>(call, *transposed_, m.weights, m.result, m.dv);
        run<T, float>(call, *scores_, m.result, m.v, m.scores);
        each_row(
            *call.stream, rows(), length_,
            SoftmaxGradient<T>{m.weights, m.scores, m.other_weights, {length_, padded_}, scale()});
        run<T, T>(call, *means_, m.other_weights, m.k, m.dq);
        run<T, T>(call, *transposed_, m.other_weights, m.q, m.dk);
        to_tokens(call, m.dq, dx.as<T>() + sample * dx.shape.row(), 3);
      }
    });
  }

  bool keeps_dy() const override { return true; }
  double multiply_adds() const override {
    return 2.0 * static_cast<double>(samples_ * heads_ * length_) *
           static_cast<double>(length_ * size_);
  }
  std::string implementation() const override {
    return "attention by " + scores_->implementation();
  }
  std::string kind() const override { return "attention"; }

 private:
  /// The matrices of the samples that are computed at a time, with one of each kind per sample and
  /// head. All q, all k and all v follow each other, and so do their gradients.
  template <class T>
  struct Matrices {
    Matrices(const AttentionLayer& layer, const LayerCall& call, std::int64_t sample) {
      const std::int64_t matrix = layer.matrix_count();
      const auto at = [&](std::size_t place) { return reinterpret_cast<T*>(call.scratch + place); };
      q = at(layer.inputs_place_);
      k = q + matrix;
      v = k + matrix;
      dq = at(layer.slopes_place_);
      dk = dq + matrix;
      dv = dk + matrix;
      result = at(layer.result_place_);
      scores = reinterpret_cast<float*>(call.scratch + layer.scores_place_);
      other_weights = at(layer.other_weights_place_);
      // Inference needs the weights only within the call.
      weights = other_weights;
      if (layer.training_) {
        std::byte* saved = call.saved + layer.weights_place_ +
                           static_cast<std::size_t>(sample / layer.at_once_) * layer.weights_bytes_;
        weights = reinterpret_cast<T*>(saved);
      }
    }
    T *q, *k, *v, *dq, *dk, *dv, *result, *weights, *other_weights;
    float* scores;
  };

  void plan(Setup& setup) {
    ProductSpec spec{.type = type_, .result = type_, .count = at_once_ * heads_, .rows = padded_};
    const auto make = [&](std::int64_t columns, std::int64_t inner) {
      spec.columns = columns;
      spec.inner = inner;
      auto plan = setup.device.product(spec);
      plan_bytes_ = std::max(plan_bytes_, plan->scratch_bytes());
      return plan;
    };
    means_ = make(size_, padded_);
    spec.transposed_a = true;
    transposed_ = make(size_, padded_);
    spec.transposed_a = false;
    spec.transposed_b = true;
    spec.result = Type::f32;
    scores_ = make(padded_, size_);
  }
  float scale() const { return 1 / std::sqrt(static_cast<float>(size_)); }

  /// Rows of scores that are computed at a time.
  std::int64_t rows() const { return at_once_ * heads_ * padded_; }
  std::int64_t scores_count() const { return rows() * padded_; }
  /// Elements of q.
  std::int64_t matrix_count() const { return rows() * size_; }
  Extents extents(std::int64_t parts) const {
    return {at_once_, length_, padded_, heads_, size_, parts};
  }

  template <class T>
  void to_heads(LayerCall& call, const T* from, T* to, std::int64_t parts) const {
    each_block(*call.stream, rows() * parts, size_, 1,
               Transpose<T, true>{from, to, extents(parts)});
  }
  template <class T>
  void to_tokens(LayerCall& call, const T* from, T* to, std::int64_t parts) const {
    each_block(*call.stream, at_once_ * length_ * parts * heads_, size_, 1,
               Transpose<T, false>{from, to, extents(parts)});
  }
  template <class T, class Result>
  void run(LayerCall& call, ProductPlan& plan, T* a, T* b, Result* c) const {
    const bool of_scores = &plan == scores_.get();
    const std::int64_t scores = scores_count(), matrix = matrix_count();
    plan.run(*call.stream, {a, {of_scores ? matrix : scores}, type_of<T>},
             {b, {matrix}, type_of<T>}, {c, {of_scores ? scores : matrix}, type_of<Result>},
             call.scratch);
  }

  std::int64_t heads_, samples_ = 0, length_ = 0, size_ = 0, at_once_ = 1, padded_ = 0;
  Type type_ = Type::f32;
  bool training_ = false;
  /// Scores of a and the transposed b; means of b by the weights a; the same with a transposed.
  std::unique_ptr<ProductPlan> scores_, means_, transposed_;
  std::size_t plan_bytes_ = 0, weights_bytes_ = 0, weights_place_ = 0, inputs_place_ = 0,
              slopes_place_ = 0, result_place_ = 0, scores_place_ = 0, other_weights_place_ = 0;
};

}  // namespace

std::unique_ptr<Layer> attention(int heads) { return std::make_unique<AttentionLayer>(heads); }

}  // namespace lockstep
