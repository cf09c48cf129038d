#include "net/sizes/shrink.h"

#include "src/device/each.h"

namespace lockstep {
namespace {

/// The pixels of `from` that pixel number `place` of `to` covers, in units of 1 / to of a pixel. So
/// all bounds and parts are whole numbers, which are exact in fp32, and the parts add up to the
/// area.
struct Covered {
  std::int64_t begin, end, to;

  HOST_DEVICE Covered(std::int64_t place, std::int64_t from, std::int64_t to)
      : begin(place * from), end(begin + from), to(to) {}
  HOST_DEVICE int first() const { return static_cast<int>(quotient(begin, to)); }
  HOST_DEVICE int last() const { return static_cast<int>(quotient(end - 1, to)); }
  /// The part of this pixel.
  HOST_DEVICE float part(int pixel) const {
    const std::int64_t from = pixel * to > begin ? pixel * to : begin,
                       until = (pixel + 1) * to < end ? (pixel + 1) * to : end;
    return static_cast<float>(until - from);
  }
};

/// A row is one of an image of `to`.
template <class T>
struct Shrunk {
  const T* images;
  T* to;
  int height, width, channels, to_height, to_width;

  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const std::int64_t image = row / to_height;
    const Covered rows(row - image * to_height, height, to_height);
    const int top = rows.first(), bottom = rows.last();
    const T* const from = images + image * height * width * channels;
    const float area = static_cast<float>(height) * static_cast<float>(width);
    for (int x = team.lane; x < to_width; x += team.lanes) {
      const Covered columns(x, width, to_width);
      const int left = columns.first(), right = columns.last();
      for (int c = 0; c < channels; ++c) {
        float sum = 0;
        for (int y = top; y <= bottom; ++y) {
          const T* const line = from + static_cast<std::int64_t>(y) * width * channels + c;
          float of_line = 0;
          for (int i = left; i <= right; ++i)
            of_line +=
                columns.part(i) * static_cast<float>(line[static_cast<std::int64_t>(i) * channels]);
          sum += rows.part(y) * of_line;
        }
        to[(row * to_width + x) * channels + c] = sum / area;
      }
    }
  }
};

}  // namespace

void shrink(Stream& stream, View images, View to) {
  const Shape from = images.shape, small = to.shape;
  const auto size = [](std::int64_t extent) { return static_cast<int>(extent); };
  dispatch(images.type, [&](auto* tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    each_row(stream, small[0] * small[1], small[2] * small[3],
             Shrunk<T>{images.as<T>(), to.as<T>(), size(from[1]), size(from[2]), size(from[3]),
                       size(small[1]), size(small[2])});
  });
}

}  // namespace lockstep
