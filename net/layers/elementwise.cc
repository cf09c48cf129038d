#include "net/layers/elementwise.h"

#include "src/device/each.h"

namespace lockstep {
namespace {

template <class T>
struct Copy {
  const T* from;
  T* to;
  HOST_DEVICE void operator()(std::int64_t i) const { to[i] = from[i]; }
};

template <class T>
struct ReluMask {
  const T *y, *dy;
  T* dx;
  HOST_DEVICE void operator()(std::int64_t i) const {
    dx[i] = static_cast<float>(y[i]) > 0 ? static_cast<float>(dy[i]) : 0.0f;
  }
};

}  // namespace

void copy(Stream& stream, View from, View to) {
  dispatch(from.type, [&](auto* tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    each(stream, from.count(), Copy<T>{from.as<T>(), to.as<T>()});
  });
}

void mask_relu(Stream& stream, View y, View dy, View dx) {
  dispatch(y.type, [&](auto* tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    each(stream, y.count(), ReluMask<T>{y.as<T>(), dy.as<T>(), dx.as<T>()});
  });
}

}  // namespace lockstep
