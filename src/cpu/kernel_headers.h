// All that src/cpu/kernels_body.h uses and is not its own.
#pragma once

#include <fmt/format.h>
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "src/check.h"
#include "src/cpu/bias_gradient.h"
#include "src/cpu/cook_toom.h"
#include "src/cpu/kernels.h"
#include "src/cpu/other_passes.h"
#include "src/cpu/parallel_for.h"
#include "src/round_up.h"
#include "src/view.h"
