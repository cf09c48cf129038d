// The menu of optimizers. An optimizer is one file in net/optimizers and two lines here.

#include <array>

#include "net/optimizer.h"
#include "src/table.h"

namespace lockstep {

std::unique_ptr<Optimizer> make_sgd(const OptimizerOptions& options);

namespace {
constexpr std::array kOptimizers{
    OptimizerEntry{"sgd",
                   "stochastic gradient descent, with --momentum, --nesterov and --weight-decay",
                   make_sgd},
};
}  // namespace

std::span<const OptimizerEntry> optimizers() { return kOptimizers; }

std::unique_ptr<Optimizer> make_optimizer(std::string_view name, const OptimizerOptions& options) {
  return find(optimizers(), name).make(options);
}

}  // namespace lockstep
