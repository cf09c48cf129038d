// The kernels of batch normalisation (net/layers/batch_norm.cc).
#pragma once

#include <cmath>
#include <type_traits>

#include "net/block_sums.h"
#include "net/layers/units.h"
#include "src/device/each.h"

namespace lockstep::batch_norm_kernels {

/// The arguments of all bodies: x as `rows` of `channels`, arrays of `channels` elements, and
/// partial sums of 2 * `blocks` such arrays. A block has `block_rows`; the last one may have fewer.
template <class T>
struct Batch {
  const T* x;
  std::int64_t rows, channels, blocks, block_rows;
  float *mean, *inverse, *partial;
  const float *gamma, *beta;

  HOST_DEVICE std::int64_t begin(std::int64_t block) const { return block * block_rows; }
  HOST_DEVICE std::int64_t end(std::int64_t block) const {
    return block + 1 < blocks ? (block + 1) * block_rows : rows;
  }
  /// The sums of the channels' squares around the means of all.
  template <int kMost, class Count, class Team>
  HOST_DEVICE void squares(std::int64_t c, Count count, const float* means, Team team,
                           double (&sums)[kMost]) const {
    // Two divisions for all blocks.
    const auto full = static_cast<double>(block_rows),
               rest = static_cast<double>(rows - begin(blocks - 1));
    const double share = 1 / full, share_of_rest = 1 / rest;
    const float *const own = partial + c, *const around = own + blocks * channels;
    const auto term = [=, blocks = blocks, channels = channels](std::int64_t block, int k) {
      const bool last = block + 1 == blocks;
      const double apart = own[block * channels + k] * (last ? share_of_rest : share) - means[k];
      return around[block * channels + k] + (last ? rest : full) * apart * apart;
    };
    add_blocks(blocks, count, team, term, sums);
  }
};

/// The values that normalise `count` channels from c on, in registers of a kernel.
template <class T, class Count>
struct Channels {
  decltype(read(std::declval<const float*>(), Count())) mean, inverse, gamma, beta;

  HOST_DEVICE Channels(const Batch<T>& b, std::int64_t c, Count count)
      : mean(read(b.mean + c, count)),
        inverse(read(b.inverse + c, count)),
        gamma(read(b.gamma + c, count)),
        beta(read(b.beta + c, count)) {}
  HOST_DEVICE float normalized(float x, int k) const { return (x - mean[k]) * inverse[k]; }
  /// y before the activation.
  HOST_DEVICE float scaled(float normalized, int k) const {
    return normalized * gamma[k] + beta[k];
  }
};

/// Whether backward replaces dy by the gradient of y before the activation.
template <class Unit>
constexpr bool kReplaces = std::is_same_v<Unit, Gelu>;

/// `value` as an array of T holds it.
template <class T>
HOST_DEVICE float rounded(float value) {
  return static_cast<float>(static_cast<T>(value));
}

/// y before the activation as a layer of T passes it to Unit. A ReLU needs no rounding.
template <class T, class Unit>
HOST_DEVICE float passed(float value) {
  return std::is_same_v<Unit, Linear> || std::is_same_v<Unit, Relu> ? value : rounded<T>(value);
}
/// The gradient of y before the activation, as that layer returns it.
template <class T, class Unit>
HOST_DEVICE float returned(float value, float dy) {
  return passed<T, Unit>(Unit::gradient(passed<T, Unit>(value), dy));
}

/// partial[block] = sum of x over the block's rows; partial[blocks + block] = sum of the squares of
/// x minus the block's mean.
template <class T>
struct SumRows {
  static constexpr int kWidth = 4 / sizeof(T);
  Batch<T> b;
  bool aligned() const { return aligned_for_packs<kWidth>(b.x); }

  template <int kMost, class Count>
  HOST_DEVICE void operator()(std::int64_t block, std::int64_t c, Count count) const {
    const std::int64_t begin = b.begin(block), end = b.end(block);
    const float share = 1 / static_cast<float>(end - begin);
    const T* const x = b.x + c;
    float sum[kMost], squares[kMost];
    for (int k = 0; k < count; ++k) sum[k] = squares[k] = 0;
    const auto load = [&](std::int64_t row) { return read(x + row * b.channels, count); };
    for_rows<8>(begin, end, count, load, [&](std::int64_t, const auto& value) {
      for_columns(count, [&](int k) { sum[k] += value[k]; });
    });
    for_rows<8>(begin, end, count, load, [&](std::int64_t, const auto& value) {
      for_columns(count, [&](int k) {
        const float distance = value[k] - sum[k] * share;
        squares[k] += distance * distance;
      });
    });
    float* const to = b.partial + block * b.channels + c;
    write(to, count, [&](int k) { return sum[k]; });
    write(to + b.blocks * b.channels, count, [&](int k) { return squares[k]; });
  }
};

/// The mean of all from their sum, and this shard's squares around it. The arrays differ: all lanes
/// read the sum, and no lane waits for the others' reads.
template <class T>
struct MeanAndSquares {
  Batch<T> b;
  std::int64_t rows;  ///< of all shards
  const float* sum;
  float* to;
  template <int kMost, class Count, class Team>
  HOST_DEVICE void operator()(std::int64_t c, Count count, Team team) const {
    float mean[kMost];
    double squares[kMost];
    for_columns(count, [&](int k) { mean[k] = sum[c + k] / static_cast<float>(rows); });
    b.squares(c, count, mean, team, squares);
    if (team.lane != 0) return;
    write(b.mean + c, count, [&](int k) { return mean[k]; });
    write(to + c, count, [&](int k) { return static_cast<float>(squares[k]); });
  }
};

/// Writes what follows from the sum of squares of all.
struct Variance {
  std::int64_t rows;
  float *inverse, *variance;
  float epsilon;
  float* ones;  ///< or null: becomes 1
  HOST_DEVICE void write(std::int64_t c, float squares) const {
    const auto all = static_cast<double>(rows);
    inverse[c] = static_cast<float>(1 / std::sqrt(squares / all + epsilon));
    variance[c] = static_cast<float>(squares / (rows > 1 ? all - 1 : 1));
    if (ones != nullptr) ones[c] = 1;
  }
};
struct WriteVariance {
  Variance to;
  const float* squares;
  HOST_DEVICE void operator()(std::int64_t c) const { to.write(c, squares[c]); }
};

/// All of these for one shard, in one pass.
template <class T>
struct Statistics {
  Batch<T> b;
  Variance to;
  template <int kMost, class Count, class Team>
  HOST_DEVICE void operator()(std::int64_t c, Count count, Team team) const {
    double sum[kMost];
    float mean[kMost];
    sum_of_blocks(b.partial + c, b.blocks, b.channels, count, team, sum);
    for_columns(count,
                [&](int k) { mean[k] = static_cast<float>(sum[k]) / static_cast<float>(b.rows); });
    b.squares(c, count, mean, team, sum);
    if (team.lane != 0) return;
    write(b.mean + c, count, [&](int k) { return mean[k]; });
    for_columns(count, [&](int k) { to.write(c + k, static_cast<float>(sum[k])); });
  }
};

struct Running {
  const float* variance;
  float* inverse;
  float epsilon;
  float* ones;  ///< or null: becomes 1
  HOST_DEVICE void operator()(std::int64_t c) const {
    inverse[c] = 1 / std::sqrt(variance[c] + epsilon);
    if (ones != nullptr) ones[c] = 1;
  }
};

template <class T, class Unit>
struct Normalize {
  static constexpr int kWidth = 16 / sizeof(T);
  Batch<T> b;
  std::int64_t blocks;
  T* y;
  bool aligned() const { return aligned_for_packs<kWidth>(b.x, y, b.gamma, b.beta); }

  template <int kMost, class Count>
  HOST_DEVICE void operator()(std::int64_t block, std::int64_t c, Count count) const {
    const Channels<T, Count> channels(b, c, count);
    const auto load = [&](std::int64_t row) { return read(b.x + row * b.channels + c, count); };
    const std::int64_t begin = b.rows * block / blocks, end = b.rows * (block + 1) / blocks;
    for_rows<4>(begin, end, count, load, [&](std::int64_t row, const auto& x) {
      write(y + row * b.channels + c, count, [&](int k) {
        const float value = channels.scaled(channels.normalized(x[k], k), k);
        return Unit::value(passed<T, Unit>(value));
      });
    });
  }
};

/// partial[block] = sum of the gradients of y before the activation; partial[blocks + block] = sum
/// of these times the normalized x. With kReplaces the gradients replace dy.
template <class T, class Unit>
struct SumGradients {
  static constexpr int kWidth = 4 / sizeof(T);
  Batch<T> b;
  T* dy;
  bool aligned() const { return aligned_for_packs<kWidth>(b.x, dy); }

  template <int kMost, class Count>
  HOST_DEVICE void operator()(std::int64_t block, std::int64_t c, Count count) const {
    const Channels<T, Count> channels(b, c, count);
    float beta[kMost], gamma[kMost];
    for (int k = 0; k < count; ++k) beta[k] = gamma[k] = 0;
    const auto load = [&](std::int64_t row) {
      const std::int64_t place = row * b.channels + c;
      return Pair{read(b.x + place, count), read(dy + place, count)};
    };
    for_rows<8>(b.begin(block), b.end(block), count, load, [&](auto row, const auto& at) {
      const auto add = [&](int k, float gradient) {
        beta[k] += gradient;
        gamma[k] += gradient * channels.normalized(at.x[k], k);
      };
      if constexpr (kReplaces<Unit>) {
        float own[kMost];  // loops of one purpose each, for the CPU's compiler
        for_columns(count, [&](int k) {
          const float scaled = channels.scaled(channels.normalized(at.x[k], k), k);
          own[k] = returned<T, Unit>(scaled, at.dy[k]);
        });
        write(dy + row * b.channels + c, count, [&](int k) { return own[k]; });
        for_columns(count, [&](int k) { add(k, own[k]); });
      } else {
        for_columns(count, [&](int k) {
          const float scaled = channels.scaled(channels.normalized(at.x[k], k), k);
          add(k, returned<T, Unit>(scaled, at.dy[k]));
        });
      }
    });
    float* const to = b.partial + block * b.channels + c;
    write(to, count, [&](int k) { return beta[k]; });
    write(to + b.blocks * b.channels, count, [&](int k) { return gamma[k]; });
  }
};

template <class T>
struct WriteGradients {
  Batch<T> b;
  const float* batch_variance;
  float *gamma, *beta, *mean, *variance;
  float share;
  template <int kMost, class Count, class Team>
  HOST_DEVICE void operator()(std::int64_t c, Count count, Team team) const {
    double sum[kMost], product[kMost];
    sum_of_blocks(b.partial + c, b.blocks, b.channels, count, team, sum);
    const float* const products = b.partial + b.blocks * b.channels + c;
    sum_of_blocks(products, b.blocks, b.channels, count, team, product);
    if (team.lane != 0) return;
    write(beta + c, count, [&](int k) { return static_cast<float>(sum[k]); });
    write(gamma + c, count, [&](int k) { return static_cast<float>(product[k]); });
    write(mean + c, count, [&](int k) { return share * b.mean[c + k]; });
    write(variance + c, count, [&](int k) { return share * batch_variance[c + k]; });
  }
};

/// Needs the sums over all rows of the gradients, and of these times the normalized x. `share`: 1 /
/// rows of all shards.
template <class T, class Unit>
struct InputGradient {
  static constexpr int kWidth = 16 / sizeof(T);
  Batch<T> b;
  std::int64_t blocks;
  const T* dy;
  T* dx;
  const float *sum, *product;
  float share;
  bool aligned() const {
    return aligned_for_packs<kWidth>(b.x, dy, dx, b.gamma, b.beta, sum, product);
  }

  template <int kMost, class Count>
  HOST_DEVICE void operator()(std::int64_t block, std::int64_t c, Count count) const {
    const Channels<T, Count> channels(b, c, count);
    const auto sums = read(sum + c, count), products = read(product + c, count);
    const auto load = [&](std::int64_t row) {
      const std::int64_t place = row * b.channels + c;
      return Pair{read(b.x + place, count), read(dy + place, count)};
    };
    const std::int64_t begin = b.rows * block / blocks, end = b.rows * (block + 1) / blocks;
    for_rows<4>(begin, end, count, load, [&](std::int64_t row, const auto& at) {
      write(dx + row * b.channels + c, count, [&](int k) {
        const float normalized = channels.normalized(at.x[k], k);
        const float gradient = returned<T, Unit>(channels.scaled(normalized, k), at.dy[k]);
        return channels.gamma[k] * channels.inverse[k] *
               (gradient - share * (sums[k] + normalized * products[k]));
      });
    });
  }
};

}  // namespace lockstep::batch_norm_kernels
