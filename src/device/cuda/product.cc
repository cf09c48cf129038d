// A warp computes a row of c, each lane every 32nd element. It reads b from the caches. That is far
// from a library's speed, and serves products that are a small part of a network.

#include "src/device/cuda/product.h"

#include "src/device/each.h"

namespace lockstep::cuda {
namespace {

template <class T, class Result>
struct Row {
  const T *a, *b;
  Result* c;
  ProductSpec spec;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const std::int64_t pair = row / spec.rows, own = row % spec.rows, inner = spec.inner,
                       columns = spec.columns;
    const T* left = a + pair * spec.rows * inner + (spec.transposed_a ? own : own * inner);
    const T* right = b + pair * inner * columns;
    const std::int64_t left_step = spec.transposed_a ? spec.rows : 1,
                       right_step = spec.transposed_b ? 1 : columns;
    for (std::int64_t column = team.lane; column < columns; column += team.lanes) {
      const T* factors = right + (spec.transposed_b ? column * inner : column);
      float sum = 0;
      for (std::int64_t k = 0; k < inner; ++k)
        sum +=
            static_cast<float>(left[k * left_step]) * static_cast<float>(factors[k * right_step]);
      c[row * columns + column] = sum;
    }
  }
};

class RowProduct : public ProductPlan {
 public:
  explicit RowProduct(const ProductSpec& spec) : spec_(spec) {}

  void run(Stream& stream, View a, View b, View c, void*) override {
    dispatch(spec_.type, [&]<class T>(T*) {
      dispatch(spec_.result, [&]<class Result>(Result*) {
        each_row(stream, spec_.count * spec_.rows, spec_.columns * spec_.inner,
                 Row<T, Result>{a.as<T>(), b.as<T>(), c.as<Result>(), spec_});
      });
    });
  }
  std::string implementation() const override { return "rows"; }

 private:
  ProductSpec spec_;
};

}  // namespace

std::unique_ptr<ProductPlan> make_product(const ProductSpec& spec) {
  return std::make_unique<RowProduct>(spec);
}

}  // namespace lockstep::cuda
