#include "src/device/cuda/rows.h"

#include <algorithm>

#include "src/device/each.h"

namespace lockstep::cuda {
namespace {

struct Same {
  HOST_DEVICE float operator()(float value) const { return value; }
};

template <class T>
struct AddBias {
  T* y;
  const float* b;
  std::int64_t columns;
  bool relu;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    for (std::int64_t c = team.lane; c < columns; c += team.lanes) {
      const float sum = static_cast<float>(y[row * columns + c]) + (b != nullptr ? b[c] : 0);
      // Not max(): a comparison with NaN is false, so NaN stays and a run that diverges is noticed.
      y[row * columns + c] = relu && sum < 0 ? 0.0f : sum;
    }
  }
};

/// partial[block] = the sum of the block's rows.
template <class T>
struct SumBlock {
  static constexpr int kWidth = 4 / sizeof(T);
  const T* from;
  float* partial;
  std::int64_t rows, columns, blocks;
  bool aligned() const { return aligned_for_packs<kWidth>(from); }

  template <int kMost, class Count>
  HOST_DEVICE void operator()(std::int64_t block, std::int64_t c, Count count) const {
    float sum[kMost];
    for (int k = 0; k < count; ++k) sum[k] = 0;
    const auto load = [&](std::int64_t row) { return read(from + row * columns + c, count); };
    for_rows<8>(rows * block / blocks, rows * (block + 1) / blocks, count, load,
                [&](std::int64_t, const auto& value) {
                  for (int k = 0; k < count; ++k) sum[k] += value[k];
                });
    write(partial + block * columns + c, count, [&](int k) { return sum[k]; });
  }
};

/// sums[c] = the sum of its partial sums, in double.
struct SumBlocks {
  const float* partial;
  float* sums;
  std::int64_t columns, blocks;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t c, Team team) const {
    double sum = 0;
    for (std::int64_t block = team.lane; block < blocks; block += team.lanes)
      sum += partial[block * columns + c];
    sum = team.sum(sum);
    if (team.lane == 0) sums[c] = static_cast<float>(sum);
  }
};

/// Enough blocks for every core of a GPU, and for short sums in fp32.
std::int64_t blocks_of(std::int64_t rows) { return std::clamp<std::int64_t>(rows / 32, 1, 2048); }

}  // namespace

void convert(Stream& stream, View from, View to) {
  dispatch(from.type, [&]<class From>(From*) {
    dispatch(to.type,
             [&]<class To>(To*) { map(stream, to.count(), Same{}, to.as<To>(), from.as<From>()); });
  });
}

void add_bias(Stream& stream, View y, View b, bool relu) {
  dispatch(y.type, [&]<class T>(T*) {
    const std::int64_t columns = y.shape.back();
    each_row(stream, y.count() / columns, columns,
             AddBias<T>{y.as<T>(), b.as<float>(), columns, relu});
  });
}

void sum_rows(Stream& stream, View rows, View sums, void* scratch) {
  dispatch(rows.type, [&]<class T>(T*) {
    const std::int64_t columns = sums.count(), count = rows.count() / columns;
    // One team per column would leave most of a GPU idle. So blocks of rows are summed first, and
    // their sums next.
    const std::int64_t blocks = blocks_of(count);
    auto* partial = static_cast<float*>(scratch);
    each_block(stream, blocks, columns, count / blocks,
               SumBlock<T>{rows.as<T>(), partial, count, columns, blocks});
    each_row(stream, columns, blocks, SumBlocks{partial, sums.as<float>(), columns, blocks});
  });
}

std::size_t sum_rows_bytes(std::int64_t rows, std::int64_t columns) {
  return (blocks_of(rows) * columns) * sizeof(float);
}

}  // namespace lockstep::cuda
