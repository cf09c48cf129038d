// Stochastic gradient descent with momentum and Nesterov's look-ahead, as TensorFlow and PyTorch
// define them:
//   g += l2 * p;  m = momentum * m + g;  p -= rate * (nesterov ? g + momentum * m : m)

#include "net/optimizer.h"
#include "src/check.h"
#include "src/each.h"

namespace lockstep {
namespace {

class Sgd : public Optimizer {
 public:
  explicit Sgd(const OptimizerOptions& options)
      : momentum_(options.momentum), nesterov_(options.nesterov) {
    if (nesterov_ && momentum_ == 0)
      fail_usage("--nesterov looks ahead along the momentum: add --momentum 0.9");
  }

  std::vector<std::string> slots() const override {
    return momentum_ == 0 ? std::vector<std::string>{} : std::vector<std::string>{"momentum"};
  }

  void step(Stream& stream, std::int64_t count, float* parameter, const float* gradient,
            std::span<float* const> slots, float rate, float l2) const override {
    if (momentum_ == 0) {
      each(stream, count,
           [=](std::int64_t i) { parameter[i] -= rate * (gradient[i] + l2 * parameter[i]); });
      return;
    }
    each(stream, count,
         [=, m = slots[0], momentum = momentum_, nesterov = nesterov_](std::int64_t i) {
           const float g = gradient[i] + l2 * parameter[i];
           m[i] = momentum * m[i] + g;
           parameter[i] -= rate * (nesterov ? g + momentum * m[i] : m[i]);
         });
  }

  std::string describe() const override {
    if (momentum_ == 0) return "sgd";
    return fmt::format("sgd, momentum {:g}{}", momentum_, nesterov_ ? ", nesterov" : "");
  }

 private:
  float momentum_;
  bool nesterov_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const OptimizerOptions& options) {
  return std::make_unique<Sgd>(options);
}

}  // namespace lockstep
