// Elementary functions of double numbers with the same bits on every processor and with every C
// library. C libraries differ in the last bits of theirs. Each step here is an IEEE operation that
// is rounded correctly: +, -, *, / or std::fma.
//
// net/exponential.h has the functions of float that kernels use.
#pragma once

namespace lockstep {

inline constexpr double kTurnsOfRadian = 0.15915494309189535;  ///< 1 / (2 pi)

/// e^x, within 1 unit in the last place if it is no denormal number. Overflow gives Inf.
double exponential(double x);

/// The natural logarithm, within 1 unit in the last place. That of 0 is -Inf; that of negative
/// numbers is NaN.
double natural_log(double x);

/// base^exponent for a base of 0 or more, within 1 + |y| / 20 units in the last place. y is the
/// natural logarithm of the result. 0 to a negative power is Inf. A negative base gives NaN.
double power(double base, double exponent);

/// cos(2 pi turns) and sin(2 pi turns) for |turns| up to 2^50, with an error of at most
/// 2.1 * 2^-53. Quarters of a turn are exact.
double cosine_of_turns(double turns);
double sine_of_turns(double turns);

}  // namespace lockstep
