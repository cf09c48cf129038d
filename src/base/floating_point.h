// The floating-point state of threads. Results have the same bits only if numbers are rounded to
// nearest and denormal numbers are kept. A library may change both when it is loaded, for example
// one that was linked with -ffast-math.
#pragma once

#include <cfenv>

namespace lockstep {

/// Sets the default state for the calling thread. Threads that it starts later inherit the state.
/// Called after libraries are loaded, and by threads whose creator may have another state.
inline void use_default_floating_point() { std::fesetenv(FE_DFL_ENV); }

}  // namespace lockstep
