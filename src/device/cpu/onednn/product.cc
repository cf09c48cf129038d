// Products of matrices by oneDNN.

#include <algorithm>

#include "src/device/cpu/library.h"
#include "src/device/cpu/onednn/onednn.h"

namespace lockstep {
namespace {

using dnnl::memory;

/// `count` matrices of `rows` x `columns`, stored with exchanged extents if `transposed`.
memory::desc matrices(const ProductSpec& spec, std::int64_t rows, std::int64_t columns,
                      bool transposed, Type type) {
  const auto tag = transposed ? memory::format_tag::acb : memory::format_tag::abc;
  return {{spec.count, rows, columns}, onednn::data_type(type), tag};
}

class OnednnProduct : public ProductPlan {
 public:
  explicit OnednnProduct(const ProductSpec& spec)
      : a_(matrices(spec, spec.rows, spec.inner, spec.transposed_a, spec.type)),
        b_(matrices(spec, spec.inner, spec.columns, spec.transposed_b, spec.type)),
        c_(matrices(spec, spec.rows, spec.columns, false, spec.result)) {
    const auto description = onednn::describe<dnnl::matmul>(onednn::attributes(false), a_, b_, c_);
    product_ = dnnl::matmul(description);
    scratchpad_ = description.scratchpad_desc();
    implementation_ = description.impl_info_str();
  }

  void run(Stream& stream, View a, View b, View c, void* scratch) override {
    stream.enqueue([=, this] {
      product_.execute(stream_, {{DNNL_ARG_SRC, {a_, engine_, a.data}},
                                 {DNNL_ARG_WEIGHTS, {b_, engine_, b.data}},
                                 {DNNL_ARG_DST, {c_, engine_, c.data}},
                                 {DNNL_ARG_SCRATCHPAD, {scratchpad_, engine_, scratch}}});
      stream_.wait();
    });
  }
  std::size_t scratch_bytes() const override { return scratchpad_.get_size(); }
  std::string implementation() const override { return "oneDNN " + implementation_; }

 private:
  const dnnl::engine& engine_ = onednn::engine();
  dnnl::stream stream_{engine_};
  memory::desc a_, b_, c_, scratchpad_;
  dnnl::matmul product_;
  std::string implementation_;
};

}  // namespace

std::unique_ptr<ProductPlan> library::product(const ProductSpec& spec) {
  return std::make_unique<OnednnProduct>(spec);
}

}  // namespace lockstep
