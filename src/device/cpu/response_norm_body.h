// Local response normalisation. Part of src/device/cpu/kernels_body.h.
//
// With s = bias + alpha * (window sum of x^2):
//   y  = x * s^-beta
//   dx = dy * s^-beta - 2 * alpha * beta * x * (window sum of dy * x * s^(-beta - 1))
//
// The squares of a pixel's channels stand in a row with zeros around them, so a window is 2 *
// radius
// + 1 adjacent loads. The kernel handles a block of pixels at a time. backward() computes s again,
// because that is cheaper than to store it.

namespace lockstep::KERNELS {
namespace {

constexpr std::int64_t kPixels = 16;  // of a block: its rows fit the first-level cache

/// A row for each pixel of a block: `radius` zeros, the channels, zeros. Values behind the
/// channels, within their last vector, must stay zero.
class Rows {
 public:
  Rows(std::int64_t channels, std::int64_t radius)
      : radius_(radius),
        stride_(round_up(channels, kLanes) + 2 * radius),
        values_(kPixels * stride_, 0.0f) {}

  float* at(std::int64_t pixel, std::int64_t channel) {
    return values_.data() + pixel * stride_ + radius_ + channel;
  }
  /// The sum over the window around each of kLanes channels.
  Vector window(std::int64_t pixel, std::int64_t channel) {
    const float* from = at(pixel, channel) - radius_;
    Vector sum = load(from);
    for (std::int64_t i = 1; i <= 2 * radius_; ++i) sum += load(from + i);
    return sum;
  }

 private:
  std::int64_t radius_, stride_;
  std::vector<float> values_;
};

/// s^-beta and s^(-beta - 1).
struct Powers {
  Vector scale, next;
};

/// For beta = 3/4, the most common value: y = s^-1/4 by three steps of Newton's iteration, each y
/// += y * (1 - s * y^4) / 4. The first guess, a quarter of the exponent, has an error of 3 %, the
/// result one of 4e-7 for normal s. Two square roots and two divisions take three times as long.
struct ThreeQuarters {
  Powers operator()(Vector s) const {
    Vector y = __builtin_bit_cast(Vector, 0x4f586000 - (__builtin_bit_cast(Words, s) >> 2));
    for (int step = 0; step < 3; ++step) {
      const Vector square = y * y;
      y = fma(y, fma(-0.25f * s, square * square, broadcast(0.25f)), y);
    }
    const Vector cube = y * y * y;
    const Vector fourth = cube * y;
    return {cube, cube * fourth};
  }
};

struct AnyPower {
  float beta;
  Powers operator()(Vector s) const {
    Powers result{};
    for (int i = 0; i < kLanes; ++i)
      result.scale[i] = static_cast<float>(lockstep::power(double{s[i]}, -double{beta}));
    result.next = result.scale / s;
    return result;
  }
};

/// The `count` values from `from` on, then zeros.
template <class T>
Vector load_part(const T* from, std::int64_t count) {
  if (count >= kLanes) return load(from);
  Vector value{};
  for (std::int64_t i = 0; i < count; ++i) value[i] = from[i];
  return value;
}
template <class T>
void store_part(T* to, Vector value, std::int64_t count) {
  if (count >= kLanes) return store(to, value);
  for (std::int64_t i = 0; i < count; ++i) to[i] = value[i];
}

class CpuResponseNorm : public ResponseNormPlan {
 public:
  explicit CpuResponseNorm(const ResponseNormSpec& spec)
      : spec_(spec), channels_(spec.input.x[3]), pixels_(spec.input.x.count() / channels_) {}

  void forward(Stream& stream, View x, View y) override {
    dispatch_vectors(x.type, [&]<class T>(T*) {
      stream.enqueue([=, this, threads = stream.threads()] {
        by_power([&](auto power) { forward_as(threads, x.as<T>(), y.as<T>(), power); });
      });
    });
  }

  void backward(Stream& stream, View x, View dy, View dx, void* /*scratch*/) override {
    dispatch_vectors(x.type, [&]<class T>(T*) {
      stream.enqueue([=, this, threads = stream.threads()] {
        by_power(
            [&](auto power) { backward_as(threads, x.as<T>(), dy.as<T>(), dx.as<T>(), power); });
      });
    });
  }

 private:
  template <class F>
  void by_power(F f) const {
    if (spec_.beta == 0.75f) return f(ThreeQuarters());
    f(AnyPower{spec_.beta});
  }

  template <class T, class Power>
  void forward_as(int threads, const T* x, T* y, Power power) const {
    each_block(threads, [&](Block& b) {
      b.fill(x);
      each_vector(b, [&](std::int64_t p, std::int64_t c, std::int64_t place, std::int64_t count) {
        const Vector s = fma(spec_.alpha, b.squares.window(p, c), broadcast(spec_.bias));
        store_part(y + place, load_part(x + place, count) * power(s).scale, count);
      });
    });
  }

  template <class T, class Power>
  void backward_as(int threads, const T* x, const T* dy, T* dx, Power power) const {
    each_block(threads, [&](Block& b) {
      b.fill(x);
      each_vector(b, [&](std::int64_t p, std::int64_t c, std::int64_t place, std::int64_t count) {
        const Powers s = power(fma(spec_.alpha, b.squares.window(p, c), broadcast(spec_.bias)));
        const Vector gradient = load_part(dy + place, count);
        // Behind the last channel s may be infinite, and the rows must stay zero.
        store_part(b.terms.at(p, c), gradient * load_part(x + place, count) * s.next, count);
        store_part(b.direct.at(p, c), gradient * s.scale, count);
      });
      const float factor = 2 * spec_.alpha * spec_.beta;
      each_vector(b, [&](std::int64_t p, std::int64_t c, std::int64_t place, std::int64_t count) {
        const Vector scaled = -factor * load_part(x + place, count);
        store_part(dx + place, fma(scaled, b.terms.window(p, c), load(b.direct.at(p, c))), count);
      });
    });
  }

  /// The rows of one block.
  struct Block {
    std::int64_t channels, first = 0, pixels = 0;
    Rows squares, terms, direct;

    Block(std::int64_t channels, std::int64_t radius)
        : channels(channels),
          squares(channels, radius),
          terms(channels, radius),
          direct(channels, radius) {}

    template <class T>
    void fill(const T* x) {
      each_vector(*this,
                  [&](std::int64_t p, std::int64_t c, std::int64_t place, std::int64_t count) {
                    const Vector value = load_part(x + place, count);
                    store(squares.at(p, c), value * value);
                  });
    }
  };

  template <class F>
  void each_block(int threads, F f) const {
    parallel_for(threads, ceil_div(pixels_, kPixels), 4, [&](std::int64_t begin, std::int64_t end) {
      Block b(channels_, spec_.radius);
      for (std::int64_t block = begin; block < end; ++block) {
        b.first = block * kPixels;
        b.pixels = std::min(kPixels, pixels_ - b.first);
        f(b);
      }
    });
  }

  /// Calls f(pixel of the block, channel, place in the tensor, channels from there on) for every
  /// vector of a block.
  template <class F>
  static void each_vector(const Block& b, F f) {
    for (std::int64_t p = 0; p < b.pixels; ++p) {
      for (std::int64_t c = 0; c < b.channels; c += kLanes)
        f(p, c, (b.first + p) * b.channels + c, b.channels - c);
    }
  }

  ResponseNormSpec spec_;
  std::int64_t channels_, pixels_;
};

std::unique_ptr<ResponseNormPlan> make_response_norm(const ResponseNormSpec& spec) {
  return std::make_unique<CpuResponseNorm>(spec);
}

}  // namespace
}  // namespace lockstep::KERNELS
