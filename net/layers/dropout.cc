// Dropout of single values and of whole samples. Backward draws the mask again, because numbers
// from a counter cost less than memory between the passes.
//
// Source: Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov, "Dropout: a simple way to
// prevent neural networks from overfitting", JMLR 15, 2014; Huang, Sun, Liu, Sedra, Weinberger,
// "Deep networks with stochastic depth", ECCV 2016.

#include <algorithm>

#include "net/layers.h"
#include "net/layers/elementwise.h"
#include "src/base/random.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

using Key = std::array<std::uint32_t, 2>;

/// y = scale * x, or 0 if the mask drops it. A row of the kernel is kQuads groups of four values of
/// a sample: one block of Philox decides about a group.
template <class T>
struct Mask {
  static constexpr int kQuads = 32;
  const T* x;
  T* y;
  /// Values of a sample, and rows.
  std::int64_t values, rows;
  Key key;
  const std::int64_t* position;
  std::int64_t offset;
  /// A value is dropped if its random number is below.
  std::uint32_t dropped;
  float scale;

  /// The random numbers of a group.
  HOST_DEVICE std::array<std::uint32_t, 4> draw(std::uint64_t sample, std::int64_t quad) const {
    return philox({static_cast<std::uint32_t>(quad), static_cast<std::uint32_t>(Purpose::dropout),
                   static_cast<std::uint32_t>(sample >> 32), static_cast<std::uint32_t>(sample)},
                  key);
  }

  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const std::int64_t sample = quotient(row, rows), quad = (row - sample * rows) * kQuads;
    // The key is the layer's, and the counter the sample's and the group's. So the mask depends on
    // no rank, no batch and no thread.
    const auto at = static_cast<std::uint64_t>(*position + offset + sample);
    const std::int64_t begin = sample * values + quad * 4,
                       count = std::min<std::int64_t>(values - quad * 4, 4 * kQuads);
    const T* const from = x + begin;
    T* const to = y + begin;
    if constexpr (Team::lanes == 1) {
      std::uint32_t words[4 * kQuads];  // of all groups at once, in vector registers
#pragma GCC ivdep
      for (int k = 0; k < kQuads; ++k) {
        const auto of_group = draw(at, quad + k);
        for (int j = 0; j < 4; ++j) words[4 * k + j] = of_group[j];
      }
#pragma GCC ivdep
      for (std::int64_t i = 0; i < count; ++i) to[i] = masked(from[i], words[i]);
    } else {
      for (std::int64_t k = team.lane; 4 * k < count; k += team.lanes) {
        const auto words = draw(at, quad + k);
        for (int j = 0; j < 4 && 4 * k + j < count; ++j)
          to[4 * k + j] = masked(from[4 * k + j], words[j]);
      }
    }
  }
  HOST_DEVICE float masked(T value, std::uint32_t word) const {
    return word < dropped ? 0.0f : static_cast<float>(value) * scale;
  }
};

/// The same for whole samples. Its number is the first of the sample.
template <class T>
struct SampleMask {
  Mask<T> of;
  /// Rows of a sample, and values of a row.
  std::int64_t rows, columns;

  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const auto at = static_cast<std::uint64_t>(*of.position + of.offset + row / rows);
    const bool drops = of.draw(at, 0)[0] < of.dropped;
    const T* from = of.x + row * columns;
    T* to = of.y + row * columns;
#pragma GCC ivdep
    for (std::int64_t i = team.lane; i < columns; i += team.lanes)
      to[i] = drops ? 0.0f : static_cast<float>(from[i]) * of.scale;
  }
};

class DropoutLayer : public Layer {
 public:
  DropoutLayer(float rate, bool samples) : rate_(rate), samples_(samples) {
    expect(rate >= 0 && rate < 1, "a dropout rate is at least 0 and below 1");
  }

  Shape setup(Setup& setup, Shape in) override {
    name_ = hash_of(setup.name);
    return in;
  }
  void forward(LayerCall& call, View x, View y) override { apply(call, x, y); }
  void backward(LayerCall& call, View, View, View dy, View dx) override { apply(call, dy, dx); }
  bool keeps_dy() const override { return true; }
  std::string implementation() const override { return samples_ ? "stochastic_depth" : "dropout"; }

 private:
  void apply(LayerCall& call, View from, View to) {
    if (call.batch == nullptr) return copy(*call.stream, from, to);
    dispatch(from.type, [&]<class T>(T*) {
      const TrainingBatch& batch = *call.batch;
      const std::int64_t values = from.shape.row(), blocks = ceil_div(values, 4 * Mask<T>::kQuads);
      const Mask<T> mask{from.as<T>(),
                         to.as<T>(),
                         values,
                         blocks,
                         key(batch.seed),
                         batch.position,
                         batch.offset,
                         static_cast<std::uint32_t>(static_cast<double>(rate_) * 0x1p32),
                         1 / (1 - rate_)};
      if (!samples_)
        return each_row(*call.stream, from.shape[0] * blocks, 4 * Mask<T>::kQuads, mask);
      const std::int64_t columns = from.shape.back(), rows = values / columns;
      each_row(*call.stream, from.shape[0] * rows, columns, SampleMask<T>{mask, rows, columns});
    });
  }

  /// The key of this layer: two layers of a model drop different values of a sample.
  Key key(std::uint64_t seed) const {
    const auto words =
        philox({name_, static_cast<std::uint32_t>(Purpose::dropout), ~0u, ~0u},
               {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
    return {words[0], words[1]};
  }

  float rate_;
  bool samples_;
  std::uint32_t name_ = 0;
};

}  // namespace

std::unique_ptr<Layer> dropout(float rate) { return std::make_unique<DropoutLayer>(rate, false); }
std::unique_ptr<Layer> stochastic_depth(float rate) {
  return std::make_unique<DropoutLayer>(rate, true);
}

}  // namespace lockstep
