// Multi-head attention between the tokens of each sample. For each sample, queries, keys and values
// are copied to one matrix per head; the device multiplies these. Backward needs the weights of the
// softmax again, so they are saved.
//
// Source: Vaswani et al., "Attention is all you need", NIPS 2017, 3.2.

#include <cmath>
#include <limits>
#include <utility>

#include "net/layers.h"
#include "net/layers/exponential.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

/// A sequence of `length` tokens with `parts` matrices of `heads` * `size` features each.
struct Extents {
  std::int64_t length, heads, size, parts;
};

/// Between tokens (length, parts, heads, size) and heads (parts, heads, length, size).
template <class T, bool kToHeads>
struct Transpose {
  const T* from;
  T* to;
  Extents e;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const std::int64_t matrices = e.parts * e.heads, token = row / matrices,
                       matrix = row % matrices;
    const std::int64_t in_heads = (matrix * e.length + token) * e.size, in_tokens = row * e.size;
    const T* source = from + (kToHeads ? in_tokens : in_heads);
    T* target = to + (kToHeads ? in_heads : in_tokens);
    for (std::int64_t c = team.lane; c < e.size; c += team.lanes) target[c] = source[c];
  }
};

/// to[row] = softmax(scale * scores[row]).
template <class T>
struct Softmax {
  float* scores;
  T* to;
  std::int64_t columns;
  float scale;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    float* score = scores + row * columns;
    // Lanes never read others' scores: another lane may have replaced its own already.
    float most = std::numeric_limits<float>::lowest(), sum = 0;
    for (std::int64_t c = team.lane; c < columns; c += team.lanes)
      most = score[c] > most ? score[c] : most;
    most = team.max(most);
    for (std::int64_t c = team.lane; c < columns; c += team.lanes)
      score[c] = exp_of_negative(scale * (most - score[c]));
    for (std::int64_t c = team.lane; c < columns; c += team.lanes) sum += score[c];
    const float share = 1 / team.sum(sum);
    for (std::int64_t c = team.lane; c < columns; c += team.lanes)
      to[row * columns + c] = share * score[c];
  }
};

/// The gradient of the scores from `slopes`, that of the weights.
template <class T>
struct SoftmaxGradient {
  const T* weights;
  const float* slopes;
  T* to;
  std::int64_t columns;
  float scale;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const std::int64_t begin = row * columns;
    float sum = 0;
    for (std::int64_t c = team.lane; c < columns; c += team.lanes)
      sum += static_cast<float>(weights[begin + c]) * slopes[begin + c];
    sum = team.sum(sum);
    for (std::int64_t c = team.lane; c < columns; c += team.lanes) {
      to[begin + c] = scale * static_cast<float>(weights[begin + c]) * (slopes[begin + c] - sum);
    }
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
    samples_ = in[0];
    length_ = in[1];
    size_ = in[2] / 3 / heads_;
    type_ = setup.type;
    plan(setup);
    const std::int64_t scores = heads_ * length_ * length_, matrix = heads_ * length_ * size_;
    const std::size_t size = size_of(type_);
    weights_bytes_ = Arena::aligned(scores * size);
    if (setup.training) weights_place_ = setup.save(samples_ * weights_bytes_);
    training_ = setup.training;
    std::size_t at = Arena::aligned(plan_bytes_);
    const auto next = [&](std::size_t bytes) {
      return std::exchange(at, at + Arena::aligned(bytes));
    };
    inputs_place_ = next(3 * matrix * size);
    slopes_place_ = next(3 * matrix * size);
    result_place_ = next(matrix * size);
    scores_place_ = next(scores * sizeof(float));
    other_weights_place_ = next(scores * size);
    setup.scratch(at);
    return {samples_, length_, heads_ * size_};
  }

  void forward(LayerCall& call, View x, View y) override {
    dispatch(type_, [&]<class T>(T*) {
      for (std::int64_t sample = 0; sample < samples_; ++sample) {
        const Matrices<T> m(*this, call, sample);
        to_heads(call, x.as<T>() + sample * x.shape.row(), m.q, 3);
        run<T, float>(call, *scores_, m.q, m.k, m.scores);
        each_row(*call.stream, heads_ * length_, length_,
                 Softmax<T>{m.scores, m.weights, length_, scale()});
        run<T, T>(call, *means_, m.weights, m.v, m.result);
        to_tokens(call, m.result, y.as<T>() + sample * y.shape.row(), 1);
      }
    });
  }

  void backward(LayerCall& call, View x, View, View dy, View dx) override {
    if (!dx) return;
    dispatch(type_, [&]<class T>(T*) {
      for (std::int64_t sample = 0; sample < samples_; ++sample) {
        const Matrices<T> m(*this, call, sample);
        to_heads(call, x.as<T>() + sample * x.shape.row(), m.q, 3);
        to_heads(call, dy.as<T>() + sample * dy.shape.row(), m.result, 1);
        run<T, T>(call, *transposed_, m.weights, m.result, m.dv);
        run<T, float>(call, *scores_, m.result, m.v, m.scores);
        each_row(*call.stream, heads_ * length_, length_,
                 SoftmaxGradient<T>{m.weights, m.scores, m.other_weights, length_, scale()});
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
  /// The matrices of one sample, with one of each kind per head. q, k and v lie in a row, and so do
  /// their gradients.
  template <class T>
  struct Matrices {
    Matrices(const AttentionLayer& layer, const LayerCall& call, std::int64_t sample) {
      const std::int64_t matrix = layer.heads_ * layer.length_ * layer.size_;
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
      weights = other_weights;
      if (layer.training_) {
        std::byte* saved = call.saved + layer.weights_place_ +
                           static_cast<std::size_t>(sample) * layer.weights_bytes_;
        weights = reinterpret_cast<T*>(saved);
      }
    }
    T *q, *k, *v, *dq, *dk, *dv, *result, *weights, *other_weights;
    float* scores;
  };

  void plan(Setup& setup) {
    ProductSpec spec{.type = type_, .result = type_, .count = heads_, .rows = length_};
    const auto make = [&] {
      auto plan = setup.device.product(spec);
      plan_bytes_ = std::max(plan_bytes_, plan->scratch_bytes());
      return plan;
    };
    spec.columns = size_;
    spec.inner = length_;
    means_ = make();
    spec.transposed_a = true;
    transposed_ = make();
    scores_ = setup.device.product({.type = type_,
                                    .result = Type::f32,
                                    .count = heads_,
                                    .rows = length_,
                                    .columns = length_,
                                    .inner = size_,
                                    .transposed_b = true});
    plan_bytes_ = std::max(plan_bytes_, scores_->scratch_bytes());
  }
  float scale() const { return 1 / std::sqrt(static_cast<float>(size_)); }

  template <class T>
  void to_heads(LayerCall& call, const T* from, T* to, std::int64_t parts) const {
    each_row(*call.stream, length_ * parts * heads_, size_,
             Transpose<T, true>{from, to, {length_, heads_, size_, parts}});
  }
  template <class T>
  void to_tokens(LayerCall& call, const T* from, T* to, std::int64_t parts) const {
    each_row(*call.stream, length_ * parts * heads_, size_,
             Transpose<T, false>{from, to, {length_, heads_, size_, parts}});
  }
  template <class T, class Result>
  void run(LayerCall& call, ProductPlan& plan, T* a, T* b, Result* c) const {
    const std::int64_t scores = heads_ * length_ * length_, matrix = heads_ * length_ * size_;
    const bool of_scores = &plan == scores_.get();
    plan.run(*call.stream, {a, {of_scores ? matrix : scores}, type_of<T>},
             {b, {matrix}, type_of<T>}, {c, {of_scores ? scores : matrix}, type_of<Result>},
             call.scratch);
  }

  std::int64_t heads_, samples_ = 0, length_ = 0, size_ = 0;
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
