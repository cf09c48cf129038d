// Local response normalisation on the CPU, vectorised over channels.
#pragma once

#include <memory>

#include "src/device.h"

namespace lockstep {
std::unique_ptr<ResponseNormPlan> make_cpu_response_norm(const ResponseNormSpec& spec);
}
