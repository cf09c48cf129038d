// Lines of depthwise convolutions, in registers of neighbouring channels. Part of
// src/device/cpu/kernels_body.h.
//
// A tile is N neighbouring pixels of an output line. Their sums, or their gradients, stay in
// registers, and each pixel of an input line is loaded once for all of a tile's sums that it
// belongs to. Taps that lie outside of the image are skipped, so no line is copied and padded.
namespace lockstep::KERNELS {
namespace {

/// One axis of a pass: output i reads the inputs first + i * step + tap. Output i is element
/// to + i * to_step of the result, and tap t is line (or column) from + t * from_step of the
/// filter.
struct Axis {
  std::int64_t count, inputs;
  int taps;
  std::int64_t first = 0, step = 1;
  std::int64_t to = 0, to_step = 1;
  int from = 0, from_step = 1;

  /// The taps of output i that are not outside: from begin to end - 1.
  int begin(std::int64_t i) const {
    return static_cast<int>(std::clamp<std::int64_t>(-(first + i * step), 0, taps));
  }
  int end(std::int64_t i) const {
    return static_cast<int>(std::clamp<std::int64_t>(inputs - (first + i * step), 0, taps));
  }
};

/// Registers of channels. The last one overlaps the one before it if it would not be full.
struct Registers {
  std::int64_t begin, end, channels;
  /// The first channel of a register.
  std::int64_t channel_of(std::int64_t i) const { return std::min(i * kLanes, channels - kLanes); }
};

/// A line of a result. Its pixels are registers.channels elements apart.
template <class T>
struct DepthwiseLine {
  const Axis* axis;
  Registers registers;
  const T* x;      ///< pixel 0 of the input line of the first tap
  const float* w;  ///< of the first line of the filter: tap 0 is at from * channels
  std::int64_t lines, x_pitch, w_pitch;  ///< lines of the filter, and elements from one to the next
  const float* bias;                     ///< or null
  bool relu;
  T* y;  ///< pixel 0 of the output line
};

/// Keeps GCC from computing what depends on `value` before a loop: too many results for registers.
template <class Value>
[[gnu::always_inline]] inline void compute_late(Value& value) {
  asm volatile("" : "+r"(value));
}

/// Calls f(input, its value) for the inputs 0 .. Count - 1 that `inside` contains a bit of.
template <int Count, class T, class F>
[[gnu::always_inline]] inline void each_input(const T* x, std::int64_t pitch, std::uint64_t inside,
                                              F f) {
  compute_late(inside);
#pragma GCC unroll 64
  for (int j = 0; j < Count; ++j, x += pitch) {
    compute_late(x);
    if ((inside >> j & 1) != 0) [[likely]]
      f(j, load(x));
  }
}

/// The bits of the tile's inputs that lie inside of the line, if its first is `pixel`.
template <int Count>
std::uint64_t inputs_inside(const Axis& axis, std::int64_t pixel) {
  const auto below = [](std::int64_t count) {
    return (std::uint64_t{1} << std::clamp<std::int64_t>(count, 0, Count)) - 1;
  };
  return below(axis.inputs - pixel) & ~below(-pixel);
}

/// Calls f(tap, output) for all outputs of a tile that read input j of the tile.
template <int Taps, int Step, int N, class F>
[[gnu::always_inline]] inline void each_use(int j, F f) {
#pragma GCC unroll 8
  for (int tap = 0; tap < Taps; ++tap) {
    const int distance = j - tap;
    if (distance >= 0 && distance % Step == 0 && distance / Step < N) f(tap, distance / Step);
  }
}

/// N outputs from output i on: chains of FMAs over the taps, line by line, from 0; then the bias.
template <int Taps, int Step, int N, class T>
[[gnu::always_inline]] inline void depthwise_tile(const DepthwiseLine<T>& line, const Axis& axis,
                                                  std::int64_t i, std::int64_t channel) {
  constexpr int kInputs = (N - 1) * Step + Taps;
  const std::int64_t pixel = axis.first + i * axis.step, channels = line.registers.channels;
  const std::uint64_t inside = inputs_inside<kInputs>(axis, pixel);
  const T* x = line.x + pixel * channels + channel;
  const float* w = line.w + channel;
  Vector sum[N] = {};
  for (std::int64_t r = 0; r < line.lines; ++r, x += line.x_pitch, w += line.w_pitch) {
    Vector factor[Taps];
#pragma GCC unroll 8
    for (int tap = 0; tap < Taps; ++tap)
      factor[tap] = load(w + (axis.from + tap * axis.from_step) * channels);
    each_input<kInputs>(x, channels, inside, [&](int j, Vector value) {
      each_use<Taps, Step, N>(j, [&](int tap, int o) { sum[o] = fma(value, factor[tap], sum[o]); });
    });
  }
  const Vector shift = line.bias != nullptr ? load(line.bias + channel) : Vector{};
  T* y = line.y + channel + (axis.to + i * axis.to_step) * channels;
  const std::int64_t y_step = axis.to_step * channels;
  const bool biased = line.bias != nullptr, relu = line.relu;
#pragma GCC unroll 16
  for (int o = 0; o < N; ++o, y += y_step) {
    Vector value = biased ? sum[o] + shift : sum[o];
    if (relu) value = value < 0 ? Vector{} : value;  // NaN stays
    store(y, value);
  }
}

/// A whole line. The last tile overlaps the one before it if it would not be full.
template <int Taps, int Step, int N, class T>
void depthwise_line(const DepthwiseLine<T>& shared) {
  const DepthwiseLine<T> line = shared;  // no store can change its members
  const Axis axis = *shared.axis;
  for (std::int64_t i = 0; i < axis.count; i += N)
    for (std::int64_t r = line.registers.begin; r < line.registers.end; ++r)
      depthwise_tile<Taps, Step, N>(line, axis, std::min(i, axis.count - N),
                                    line.registers.channel_of(r));
}

/// A line of dy for the sums of the weights gradient, [register][filter line][tap][kLanes].
template <class T>
struct DepthwiseSums {
  const Axis* axis;
  Registers registers;
  const T* x;  ///< as above
  const T* dy;
  std::int64_t lines, x_pitch;
  float* sums;              ///< of the first register and line of the filter
  std::int64_t sums_pitch;  ///< floats from register to register
};

/// Continues the chain of each sum with N pixels of dy, from pixel i on.
template <int Taps, int Step, int N, class T>
[[gnu::always_inline]] inline void add_depthwise_tile(const DepthwiseSums<T>& line,
                                                      const Axis& axis, std::int64_t i,
                                                      std::int64_t channel, float* sums) {
  constexpr int kInputs = (N - 1) * Step + Taps;
  const std::int64_t pixel = axis.first + i * axis.step, channels = line.registers.channels;
  const std::uint64_t inside = inputs_inside<kInputs>(axis, pixel);
  Vector gradient[N];
#pragma GCC unroll 16
  for (int o = 0; o < N; ++o) gradient[o] = load(line.dy + channel + (i + o) * channels);
  const T* x = line.x + pixel * channels + channel;
  for (std::int64_t r = 0; r < line.lines; ++r, x += line.x_pitch, sums += Taps * kLanes) {
    Vector sum[Taps];
#pragma GCC unroll 8
    for (int tap = 0; tap < Taps; ++tap) sum[tap] = load(sums + tap * kLanes);
    each_input<kInputs>(x, channels, inside, [&](int j, Vector value) {
      each_use<Taps, Step, N>(
          j, [&](int tap, int o) { sum[tap] = fma(value, gradient[o], sum[tap]); });
    });
#pragma GCC unroll 8
    for (int tap = 0; tap < Taps; ++tap) store(sums + tap * kLanes, sum[tap]);
  }
}

/// Tiles of these widths, the first of which needs most registers.
template <int... N>
struct Widths {};
using DepthwiseWidths =
    std::conditional_t<kRegisters == 32, Widths<14, 8, 7, 4, 1>, Widths<8, 7, 4, 1>>;

/// Adds a whole line of dy.
template <int Taps, int Step, class T>
void add_depthwise_line(const DepthwiseSums<T>& shared) {
  const DepthwiseSums<T> line = shared;  // no store can change its members
  const Axis axis = *shared.axis;
  std::int64_t i = 0;
  const auto add = [&]<int... N>(Widths<N...>) {
    const auto add_tiles = [&]<int Width>(std::integral_constant<int, Width>) {
      for (; i + Width <= axis.count; i += Width)
        for (std::int64_t r = line.registers.begin; r < line.registers.end; ++r)
          add_depthwise_tile<Taps, Step, Width>(
              line, axis, i, line.registers.channel_of(r),
              line.sums + (r - line.registers.begin) * line.sums_pitch);
    };
    (add_tiles(std::integral_constant<int, N>()), ...);
  };
  if (axis.step == Step)
    add(DepthwiseWidths());
  else
    add(Widths<1>());
}

template <class T>
using LineFunction = void (*)(const DepthwiseLine<T>&);
template <class T>
using SumsFunction = void (*)(const DepthwiseSums<T>&);

/// The function that takes least time: that of a tile is about its width plus 2.
template <class T, int Taps, int Step, int... N>
LineFunction<T> best_width(const Axis& axis, Widths<N...>) {
  LineFunction<T> best = depthwise_line<Taps, Step, 1, T>;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  const auto consider = [&]<int Width>(std::integral_constant<int, Width>) {
    const std::int64_t time = ceil_div(axis.count, std::int64_t{Width}) * (Width + 2);
    if (axis.count < Width || time >= least) return;
    best = depthwise_line<Taps, Step, Width, T>;
    least = time;
  };
  if (axis.step == Step) (consider(std::integral_constant<int, N>()), ...);
  return best;
}

/// Strides of 1 and 2 have tiles; others have single pixels. A whole filter has 3, 5 or 7 taps; a
/// phase of backward data has fewer, at stride 1.
template <class T>
LineFunction<T> line_function(const Axis& axis) {
  constexpr DepthwiseWidths kWidths;
  LineFunction<T> found = nullptr;
  const auto consider = [&]<int Taps>(std::integral_constant<int, Taps>) {
    if (axis.taps != Taps) return;
    found = best_width<T, Taps, 1>(axis, kWidths);
    if constexpr (Taps == 3 || Taps >= 5) {
      if (axis.step == 2) found = best_width<T, Taps, 2>(axis, kWidths);
    }
  };
  [&]<int... Taps>(Widths<Taps...>) { (consider(std::integral_constant<int, Taps>()), ...); }
  (Widths<1, 2, 3, 4, 5, 7>());
  return found;
}
template <class T>
SumsFunction<T> sums_function(const Axis& axis) {
  const auto any_step = [&]<int Taps>(std::integral_constant<int, Taps>) {
    return axis.step == 2 ? add_depthwise_line<Taps, 2, T> : add_depthwise_line<Taps, 1, T>;
  };
  if (axis.taps == 3) return any_step(std::integral_constant<int, 3>());
  if (axis.taps == 5) return any_step(std::integral_constant<int, 5>());
  return any_step(std::integral_constant<int, 7>());
}

}  // namespace
}  // namespace lockstep::KERNELS
