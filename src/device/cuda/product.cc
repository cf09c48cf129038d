// A product is a pass of dense layers, one for each pair of matrices, so that libraries compute all
// pairs at a time:
//
//   c = a b^T     forward             x = a, w = b, y = c
//   c = a b       backward_data       y = a, w = b, x = c
//   c = a^T b     backward_weights    y = a, x = b, w = c
//
// Else a warp computes a row of c, each lane every 32nd element, with b from the caches. That is
// far from a library's speed.

#include <utility>

#include "src/device/cuda/layers.h"
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

class LibraryProduct : public ProductPlan {
 public:
  LibraryProduct(Pass pass, std::shared_ptr<const Plan> plan)
      : pass_(pass), plan_(std::move(plan)) {}

  void run(Stream& stream, View a, View b, View c, void* scratch) override {
    Tensors tensors{a.data, b.data, nullptr, c.data};
    if (pass_ == Pass::backward_data) tensors = {c.data, b.data, nullptr, a.data};
    if (pass_ == Pass::backward_weights) tensors = {b.data, c.data, nullptr, a.data};
    plan_->run(stream, tensors, scratch);
  }
  std::size_t scratch_bytes() const override { return plan_->workspace_bytes(); }
  std::string implementation() const override { return plan_->name(); }

 private:
  Pass pass_;
  std::shared_ptr<const Plan> plan_;
};

/// The pass of dense layers that is the product. Not both of its factors are transposed.
Convolution as_dense_layers(const ProductSpec& spec) {
  Convolution work;
  work.pass = spec.transposed_b ? Pass::forward : Pass::backward_data;
  if (spec.transposed_a) work.pass = Pass::backward_weights;
  work.type = spec.type;
  work.fp32_result = spec.result != spec.type;
  work.layers = spec.count;
  const auto matrix = [](std::int64_t rows, std::int64_t columns) {
    return Shape{rows, 1, 1, columns};
  };
  const Shape a = spec.transposed_a ? matrix(spec.inner, spec.rows) : matrix(spec.rows, spec.inner),
              b = spec.transposed_b ? matrix(spec.columns, spec.inner)
                                    : matrix(spec.inner, spec.columns),
              c = matrix(spec.rows, spec.columns);
  if (work.pass == Pass::forward) work.x = a, work.w = b, work.y = c;
  if (work.pass == Pass::backward_data) work.y = a, work.w = b, work.x = c;
  if (work.pass == Pass::backward_weights) work.y = a, work.x = b, work.w = c;
  return work;
}

}  // namespace

std::unique_ptr<ProductPlan> make_row_product(const ProductSpec& spec) {
  return std::make_unique<RowProduct>(spec);
}

std::unique_ptr<ProductPlan> make_product(const Libraries& libraries, const ProductSpec& spec) {
  // No pass has both factors transposed, and a library writes the type of its inputs or fp32.
  const bool planned = spec.result == spec.type || spec.result == Type::f32;
  if (planned && !(spec.transposed_a && spec.transposed_b)) {
    const Convolution work = as_dense_layers(spec);
    if (auto plan = choose(libraries, work))
      return std::make_unique<LibraryProduct>(work.pass, std::move(plan));
  }
  return make_row_product(spec);
}

}  // namespace lockstep::cuda
