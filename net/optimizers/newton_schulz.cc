#include "net/optimizers/newton_schulz.h"

#include <algorithm>

#include "src/device/each.h"

namespace lockstep {
namespace {

constexpr float kLinear = 3.4445f, kCubic = -4.7750f, kQuintic = 2.0315f;

struct SetZero {
  float* to;
  HOST_DEVICE void operator()(std::int64_t i) const { to[i] = 0; }
};

/// gram <- cubic * gram + quintic * square.
struct Polynomial {
  float* gram;
  const float* square;
  HOST_DEVICE void operator()(std::int64_t i) const {
    gram[i] = kCubic * gram[i] + kQuintic * square[i];
  }
};

struct AddLinear {
  float* x;
  const float* product;
  HOST_DEVICE void operator()(std::int64_t i) const { x[i] = kLinear * x[i] + product[i]; }
};

}  // namespace

NewtonSchulz::NewtonSchulz(Device& device, std::int64_t rows, std::int64_t columns)
    : rows_(rows), columns_(columns), side_(std::min(rows, columns)), wide_(rows <= columns) {
  plan_ = device.dense({{{rows, columns}, Type::f32, true, true}, side_});
  square_ = device.dense({{{side_, side_}, Type::f32, false, false}, side_});
  const auto reserve = [this](std::int64_t floats) {
    const std::size_t place = places_.bytes;
    places_.bytes += Arena::aligned(floats * sizeof(float));
    return place;
  };
  places_.gram = reserve(side_ * side_);
  places_.square = reserve(side_ * side_);
  places_.product = reserve(rows * columns);
  places_.zeros = reserve(side_);
  places_.plan = places_.bytes;
  places_.bytes += Arena::aligned(std::max(plan_->scratch_bytes(), square_->scratch_bytes()));
}

void NewtonSchulz::give(Stream& stream, float* x, int iterations, std::byte* scratch) const {
  const auto at = [scratch](std::size_t place) {
    return reinterpret_cast<float*>(scratch + place);
  };
  const View matrix{x, {rows_, columns_}, Type::f32},
      gram{at(places_.gram), {side_, side_}, Type::f32},
      square{at(places_.square), {side_, side_}, Type::f32},
      product{at(places_.product), {rows_, columns_}, Type::f32},
      zeros{at(places_.zeros), {side_}, Type::f32};
  void* const room = scratch + places_.plan;
  for (int iteration = 0; iteration < iterations; ++iteration) {
    // (x x^T) x is x (x^T x): the smaller square is the cheaper one.
    each(stream, side_, SetZero{at(places_.zeros)});
    if (wide_) {
      plan_->forward(stream, matrix, matrix, zeros, gram, room);
    } else {
      plan_->backward_weights(stream, matrix, matrix, gram, zeros, room);
      each(stream, side_, SetZero{at(places_.zeros)});  // it had the sums of the columns
    }
    square_->forward(stream, gram, gram, zeros, square, room);
    each(stream, gram.count(), Polynomial{at(places_.gram), at(places_.square)});
    if (wide_) {
      plan_->backward_data(stream, gram, matrix, product, room);
    } else {
      plan_->forward(stream, matrix, gram, zeros, product, room);
    }
    each(stream, matrix.count(), AddLinear{x, at(places_.product)});
  }
}

}  // namespace lockstep
