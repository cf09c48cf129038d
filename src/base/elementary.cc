#include "src/base/elementary.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace lockstep {
namespace {

// The coefficients interpolate each function at Chebyshev's points of its interval. They were
// computed with 60 digits (mpmath's chebyfit) and rounded to double.

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// log 2 = kLog2 + kRestOfLog2. The first has 42 bits, so its product with an exponent is exact.
constexpr double kLog2 = 0.6931471805598903, kRestOfLog2 = 5.497923018708371e-14;

/// The polynomial with these coefficients, that of the highest power first.
template <std::size_t N>
double polynomial(const std::array<double, N>& coefficients, double x) {
  double sum = coefficients[0];
  for (std::size_t i = 1; i < N; ++i) sum = std::fma(sum, x, coefficients[i]);
  return sum;
}

/// A number of about 60 bits: high + low. The low part is less than a unit in the last place of the
/// high one.
struct Sum {
  double high, low;
};

/// The natural logarithm of a positive, finite x.
Sum log_of(double x) {
  // log m = 2 s + s^3 * q(s^2) with s = (m - 1) / (m + 1). The error of q is 2^-60 of log m.
  static constexpr std::array kQ{0.13086767009948175, 0.13268759668560612, 0.15386240205813478,
                                 0.18181795630884753, 0.2222222239180047,  0.2857142857080323,
                                 0.4000000000000088,  0.6666666666666666};
  constexpr double kRoot = 0.70710678118654752;
  double exponent = 0;
  if (x < std::numeric_limits<double>::min()) {  // a denormal number
    x *= 0x1p54;
    exponent = -54;
  }
  // x = m * 2^whole with m between the square roots of 1/2 and 2.
  const auto bits = std::bit_cast<std::int64_t>(x);
  const std::int64_t whole = (bits - std::bit_cast<std::int64_t>(kRoot)) >> 52;
  const auto m = std::bit_cast<double>(bits - whole * (std::int64_t{1} << 52));
  exponent += static_cast<double>(whole);
  const double above = m - 1, below = m + 1, s = above / below, square = s * s;
  // (m - 1) / (m + 1) = s + rest: `below` and the quotient were rounded.
  const double lost = m - (below - 1), rest = (std::fma(-s, below, above) - s * lost) / below;
  const double tail = std::fma(s * square, polynomial(kQ, square), 2 * rest);
  const double begin = exponent * kLog2, near = begin + 2 * s,
               low = (begin - near) + 2 * s + std::fma(exponent, kRestOfLog2, tail),
               high = near + low;
  return {high, low - (high - near)};
}

/// 2^power for powers from -1022 to 1023.
double two_to(std::int64_t power) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(power + 1023) << 52);
}

/// e^(high + low).
double exponential_of(Sum x) {
  // e^r = 1 + r + r^2 * q(r) for |r| up to log(2) / 2. The error of q is 2^-61 of e^r.
  static constexpr std::array kQ{2.0914686968086876e-09,
                                 2.5105217004720745e-08,
                                 2.75572736431103e-07,
                                 2.7557255400206422e-06,
                                 2.4801587325547743e-05,
                                 0.00019841269874820627,
                                 0.0013888888888883748,
                                 0.008333333333326136,
                                 0.04166666666666667,
                                 0.1666666666666667,
                                 0.5};
  if (!(x.high < 710)) return x.high > 0 ? kInfinity : kNan;
  if (x.high < -746) return 0;
  constexpr double kRound = 0x1.8p52;  // sums with it are whole
  const double shifted = std::fma(x.high, 1.4426950408889634, kRound), whole = shifted - kRound;
  const double rest = std::fma(whole, -kRestOfLog2, x.low), high = std::fma(whole, -kLog2, x.high);
  // x - whole * log 2 is the small difference of two large numbers. Its second part keeps the bits
  // that `r` has no room for.
  const double r = high + rest, lost = rest - (r - high);
  const double factor = 1 + (r + std::fma(r * r, polynomial(kQ, r), lost));
  const auto power = static_cast<std::int64_t>(whole), half = power >> 1;
  return factor * two_to(half) * two_to(power - half);  // 2^power may be no double number
}

/// sin(pi * x) for |x| up to 1/2.
double sine_of_half_turns(double x) {
  // x * (pi + x^2 * q(x^2)). The error of q is 2^-55 of the sine.
  static constexpr std::array kQ{
      7.725743030789876e-07, -2.1906201655131958e-05, 0.00046630087411496363, -0.007370430719634586,
      0.08214588659675232,   -0.599264529320343,      2.55016403987734,       -5.16771278004997};
  constexpr double kPi = 3.141592653589793, kRestOfPi = 1.2246467991473532e-16;
  const double square = x * x;
  return std::fma(x, kPi, x * std::fma(square, polynomial(kQ, square), kRestOfPi));
}

/// Half turns, and those beyond the nearest whole number of them.
struct HalfTurns {
  bool odd;
  double rest;  ///< from -1/2 to 1/2

  explicit HalfTurns(double turns) {
    constexpr double kRound = 0x1.8p52;  // sums with it are whole
    const double half_turns = 2 * turns, shifted = half_turns + kRound;
    odd = (std::bit_cast<std::uint64_t>(shifted) & 1) != 0;
    rest = half_turns - (shifted - kRound);
  }
};

}  // namespace

double exponential(double x) { return exponential_of({x, 0}); }

double natural_log(double x) {
  if (!(x > 0)) return x == 0 ? -kInfinity : kNan;
  if (x == kInfinity) return x;
  return log_of(x).high;
}

double power(double base, double exponent) {
  if (exponent == 0 || base == 1) return 1;
  if (base == 0 || base == kInfinity) return (base == 0) == (exponent < 0) ? kInfinity : 0;
  if (!(base > 0)) return kNan;
  // e^x turns an absolute error of x into a relative one of the result. So the logarithm needs more
  // bits than a double has, and its product with the exponent keeps the rounding error.
  const Sum log = log_of(base);
  const double high = log.high * exponent;
  return exponential_of({high, std::fma(log.high, exponent, -high) + log.low * exponent});
}

double cosine_of_turns(double turns) {
  const HalfTurns half_turns(turns);
  // cos(pi x) = sin(pi (1/2 - x)).
  const double cosine = sine_of_half_turns(0.5 - std::abs(half_turns.rest));
  return half_turns.odd ? -cosine : cosine;
}

double sine_of_turns(double turns) {
  const HalfTurns half_turns(turns);
  const double sine = sine_of_half_turns(half_turns.rest);
  return half_turns.odd ? -sine : sine;
}

}  // namespace lockstep
