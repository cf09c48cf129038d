// The headers that src/device/cpu/kernels_body.h needs.
#pragma once

#include <fmt/format.h>
#ifdef __aarch64__
#include <arm_neon.h>
#else
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/base/elementary.h"
#include "src/base/round_up.h"
#include "src/base/view.h"
#include "src/device/cpu/bias_gradient.h"
#include "src/device/cpu/cook_toom.h"
#include "src/device/cpu/kernels.h"
#include "src/device/cpu/other_passes.h"
#include "src/device/parallel_for.h"
