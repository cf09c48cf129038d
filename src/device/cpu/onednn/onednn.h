// One spelling for oneDNN 2 and 3. Only src/device/cpu/onednn includes this.
//
// Version 2 builds a primitive from an operation descriptor and an engine. Version 3 has no
// operation descriptors and takes the engine first. No other file depends on the version.
#pragma once

#include <dnnl.hpp>
#include <utility>

#include "src/base/view.h"

namespace lockstep::onednn {

/// The processor's cores, for all plans.
const dnnl::engine& engine();

/// Attributes of every primitive: the caller owns the scratchpad, and ReLU is fused on request.
inline dnnl::primitive_attr attributes(bool relu) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (relu) {
    dnnl::post_ops ops;
#if DNNL_VERSION_MAJOR >= 3
    ops.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
#else
    ops.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
#endif
    attr.set_post_ops(ops);
  }
  return attr;
}

/// The primitive descriptor of forward primitive P.
template <class P, class... Args>
typename P::primitive_desc describe(const dnnl::primitive_attr& attr, Args&&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine(), std::forward<Args>(args)..., attr};
#else
  return {typename P::desc(std::forward<Args>(args)...), attr, engine()};
#endif
}

/// The primitive descriptor of backward primitive P with its forward `hint`.
template <class P, class Hint, class... Args>
typename P::primitive_desc describe_backward(const dnnl::primitive_attr& attr, const Hint& hint,
                                             Args&&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine(), std::forward<Args>(args)..., hint, attr};
#else
  return {typename P::desc(std::forward<Args>(args)...), attr, engine(), hint};
#endif
}

inline dnnl::memory::data_type data_type(Type type) {
  return type == Type::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

}  // namespace lockstep::onednn
