// The rows of the sweep over all layers in tests/unit/layers.cc.
#pragma once

#include <memory>
#include <ostream>

#include "tests/unit/layer_references.h"

namespace lockstep {

/// For convolutions by Winograd's algorithm, see tests/unit/convolutions.cc.
constexpr double kFastTolerance = 1e-5;

/// One row of the sweep.
struct LayerCase {
  const char* name;
  std::function<std::unique_ptr<Layer>()> make;
  Reference reference;
  Shape x;
  /// Relative errors in fp32, and of bf16 against it: half a unit in the last of 8 bits, with some
  /// room; more where one layer's rounding goes through the next.
  double tolerance = 2e-6, narrow = 4e-3;
};

inline void PrintTo(const LayerCase& c, std::ostream* out) { *out << c.name; }

inline std::vector<LayerCase> cases() {
  const AffineInit init{.weight_deviation = 0.3f, .bias = 0.1f};
  return {
      {"convolution",
       [=] { return convolution(5, 3, false, init); },
       reference_convolution(5, 3, false),
       {2, 6, 5, 3}},
      {"convolution_relu",
       [=] { return convolution(16, 5, true, init); },
       reference_convolution(16, 5, true),
       {2, 7, 6, 8}},
      {"convolution_wide",
       [=] { return convolution(32, 5, true, init); },
       reference_convolution(32, 5, true),
       {1, 5, 5, 32},
       kFastTolerance},
      {"dense", [=] { return dense(7, false, init); }, reference_dense(7, false), {3, 11}},
      {"dense_relu_of_images",
       [=] { return dense(10, true, init); },
       reference_dense(10, true),
       {4, 2, 3, 5}},
      {"max_pool",
       [] { return max_pool(3, 2, false); },
       reference_max_pool(3, 2, false),
       {2, 6, 7, 5}},
      {"max_pool_relu",
       [] { return max_pool(3, 2, true); },
       reference_max_pool(3, 2, true),
       {2, 8, 8, 70}},
      {"max_pool_2",
       [] { return max_pool(2, 2, false); },
       reference_max_pool(2, 2, false),
       {1, 4, 4, 3}},
      {"response_norm",
       [] { return response_norm(4, 1, 0.3f, 0.75f); },
       reference_response_norm(4, 1, 0.3f, 0.75),
       {2, 3, 3, 20}},
      {"response_norm_root",
       [] { return response_norm(1, 2, 0.5f, 0.5f); },
       reference_response_norm(1, 2, 0.5, 0.5),
       {1, 2, 3, 5}},
      {"response_norm_many",
       [] { return response_norm(4, 1, 0.01f, 0.75f); },
       reference_response_norm(4, 1, 0.01f, 0.75),
       {3, 3, 3, 64}},
      {"convolution_without_biases",
       [] { return convolution(5, 3, true, {.biases = false}); },
       reference_convolution(5, 3, true),
       {2, 6, 5, 3}},
      {"convolution_stride",
       [=] { return convolution(6, 3, true, init, {.stride = 2}); },
       reference_convolution(6, 3, true, {.stride = 2}),
       {2, 8, 7, 4}},
      {"convolution_1x1_stride",
       [=] { return convolution(6, 1, false, init, {.stride = 2}); },
       reference_convolution(6, 1, false, {.stride = 2}),
       {2, 6, 6, 3}},
      {"convolution_valid",
       [=] { return convolution(5, 4, false, init, {.padding = Padding::valid}); },
       reference_convolution(5, 4, false, {.padding = Padding::valid}),
       {2, 7, 6, 3}},
      {"convolution_dilated",
       [=] { return convolution(5, 3, true, init, {.dilation = 2}); },
       reference_convolution(5, 3, true, {.dilation = 2}),
       {2, 7, 8, 3}},
      {"convolution_of_all_options",
       [=] {
         return convolution(6, 3, false, init,
                            {.stride = 2, .dilation = 2, .groups = 2, .padding = Padding::valid});
       },
       reference_convolution(6, 3, false,
                             {.stride = 2, .dilation = 2, .groups = 2, .padding = Padding::valid}),
       {2, 9, 10, 4}},
      {"convolution_groups",
       [=] { return convolution(6, 3, true, init, {.groups = 2}); },
       reference_convolution(6, 3, true, {.groups = 2}),
       {2, 5, 6, 8}},
      {"convolution_depthwise",
       [=] { return convolution(16, 3, false, init, {.groups = 16}); },
       reference_convolution(16, 3, false, {.groups = 16}),
       {2, 5, 5, 16}},
      {"convolution_1d",
       [=] { return convolution(6, 5, true, init); },
       reference_convolution(6, 5, true),
       {3, 11, 7}},
      {"convolution_1d_valid",
       [=] { return convolution(8, 5, true, init, {.stride = 2, .padding = Padding::valid}); },
       reference_convolution(8, 5, true, {.stride = 2, .padding = Padding::valid}),
       {2, 16, 7}},
      {"max_pool_valid",
       [] { return max_pool(3, 2, false, Padding::valid); },
       reference_max_pool(3, 2, false, Padding::valid),
       {2, 8, 6, 5}},
      {"max_pool_centred",
       [] { return max_pool(3, 2, false, Padding::centred); },
       reference_max_pool(3, 2, false, Padding::centred),
       {2, 8, 7, 5}},
      {"max_pool_1d",
       [] { return max_pool(2, 2, false); },
       reference_max_pool(2, 2, false),
       {3, 7, 5}},
      {"max_pool_1d_valid",
       [] { return max_pool(3, 2, true, Padding::valid); },
       reference_max_pool(3, 2, true, Padding::valid),
       {3, 8, 5}},
      {"average_pool",
       [] { return average_pool(3, 2); },
       reference_pool(3, 2, Padding::same, mean),
       {2, 6, 7, 5}},
      {"average_pool_valid",
       [] { return average_pool(3, 1, Padding::valid); },
       reference_pool(3, 1, Padding::valid, mean),
       {2, 6, 5, 3}},
      {"average_pool_1d",
       [] { return average_pool(4, 3); },
       reference_pool(4, 3, Padding::same, mean),
       {2, 11, 5}},
      {"global_average_pool", global_average_pool, reference_global(mean), {3, 4, 5, 6}},
      {"global_average_pool_1d", global_average_pool, reference_global(mean), {3, 9, 6}},
      {"global_max_pool", global_max_pool, reference_global(highest), {3, 4, 5, 6}},
      {"global_max_pool_1d", global_max_pool, reference_global(highest), {3, 9, 6}},
      {"rescale",
       [] { return rescale(0.75f, -0.5f); },
       reference_unit([](double x) { return 0.75 * x - 0.5; }),
       {2, 3, 3, 5}},
      {"flatten", flatten, [](const Inputs& in) { return in.x; }, {2, 3, 4, 5}},
      {"subsample", [] { return subsample(2, 8); }, reference_subsample(2, 8), {2, 5, 6, 3}},
      {"gelu", gelu, reference_unit(gelu_of), {2, 3, 3, 5}},
      {"silu", silu, reference_unit(silu_of), {2, 3, 3, 5}},
      {"hard_sigmoid",
       [] { return chain(named(rescale(5, 0), hard_sigmoid())); },
       reference_unit([](double x) { return hard_sigmoid_of(5 * x); }),
       {2, 3, 3, 5}},
      {"hard_swish",
       [] { return chain(named(rescale(5, 0), hard_swish())); },
       reference_unit([](double x) { return 5 * x * hard_sigmoid_of(5 * x); }),
       {2, 3, 3, 5},
       2e-6,
       8e-3},
      {"linear", [=] { return linear(7, init); }, reference_linear(7), {2, 3, 11}},
      {"squeeze_excitation",
       [] { return squeeze_excitation(6, 4); },
       reference_squeeze_excitation,
       {2, 4, 3, 6},
       2e-6,
       2e-2},
      {"layer_scale", [] { return layer_scale(1); }, reference_layer_scale, {2, 70, 3, 5}},
      {"attention", [] { return attention(2); }, reference_attention(2), {2, 5, 18}, 2e-6, 1e-2},
      {"class_token", class_token, reference_class_token, {3, 4, 5}},
      {"class_token_of_images", class_token, reference_class_token, {3, 2, 2, 5}},
      {"position_embedding",
       [] { return position_embedding(1); },
       [](const Inputs& in) {
         Values y = in.x;
         for (std::size_t i = 0; i < y.size(); ++i) y[i] += in.parameters[0][i % 20];
         return y;
       },
       {3, 4, 5}},
      {"first_token", first_token, reference_first_token, {3, 4, 5}},
      {"softmax", softmax, reference_softmax, {5, 7}},
      {"layer_norm", [] { return layer_norm(0.25f); }, reference_layer_norm(0.25), {3, 4, 5, 6}},
      {"layer_norm_of_features",
       [] { return layer_norm(0.25f); },
       reference_layer_norm(0.25),
       {150, 9}},
      {"relu", [] { return relu(); }, reference_relu, {2, 3, 3, 5}},
      {"batch_norm",
       [] { return batch_norm({.epsilon = 0.25f}); },
       reference_batch_norm(0.25),
       {4, 5, 3, 6}},
      {"batch_norm_without_scale",
       [] { return batch_norm({.epsilon = 0.25f, .scale = false}); },
       [](const Inputs& in) {
         Inputs scaled = in;
         scaled.parameters.insert(scaled.parameters.begin(), Values(in.parameters[0].size(), 1));
         return reference_batch_norm(0.25)(scaled);
       },
       {4, 5, 3, 6}},
      {"batch_norm_of_features",
       [] { return batch_norm({.epsilon = 0.25f}); },
       reference_batch_norm(0.25),
       {7, 5}},
      {"batch_norm_relu",
       [] { return batch_norm({.epsilon = 0.25f, .activation = Activation::relu}); },
       then_relu(reference_batch_norm(0.25)),
       {3, 10, 7, 6}},
      {"batch_norm_gelu",
       [] { return batch_norm({.epsilon = 0.25f, .activation = Activation::gelu}); },
       [](const Inputs& in) {
         Inputs inner{in.x_shape, reference_batch_norm(0.25)(in), {}};
         return reference_unit(gelu_of)(inner);
       },
       {3, 4, 5, 70},
       2e-6,
       2e-2},
      {"batch_norm_hard_swish",
       [] { return batch_norm({.epsilon = 0.25f, .activation = Activation::hard_swish}); },
       [](const Inputs& in) {
         Inputs inner{in.x_shape, reference_batch_norm(0.25)(in), {}};
         return reference_unit([](double x) { return x * hard_sigmoid_of(x); })(inner);
       },
       {3, 4, 5, 70},
       2e-6,
       2e-2},
      {"chain",
       [=] { return chain(named(dense(9, true, init), relu(), dense(4, false, init))); },
       reference_chain({{reference_dense(9, true), 2, {3, 9}},
                        {reference_relu, 0, {3, 9}},
                        {reference_dense(4, false), 2, {3, 4}}}),
       {3, 11},
       1e-5,
       2e-2},
      {"residual",
       [=] {
         return residual(named(batch_norm({.epsilon = 0.25f}), convolution(5, 3, true, init),
                               convolution(3, 3, true, init)));
       },
       reference_sum([](const Inputs& in) { return in.x; },
                     reference_chain({{reference_batch_norm(0.25), 4, {2, 4, 4, 3}},
                                      {reference_convolution(5, 3, true), 2, {2, 4, 4, 5}},
                                      {reference_convolution(3, 3, true), 2, {2, 4, 4, 3}}})),
       {2, 4, 4, 3},
       1e-5,
       5e-2},
      {"residual_with_shortcut",
       [=] {
         return residual(named(convolution(4, 3, true, init), convolution(5, 3, false, init)),
                         named(convolution(5, 1, true, init)));
       },
       reference_sum(reference_chain({{reference_convolution(5, 1, true), 2, {2, 4, 4, 5}}}),
                     reference_chain({{reference_convolution(4, 3, true), 2, {2, 4, 4, 4}},
                                      {reference_convolution(5, 3, false), 2, {2, 4, 4, 5}}},
                                     2)),
       {2, 4, 4, 3},
       1e-5,
       5e-2},
      {"residual_relu",
       [=] { return residual(named(convolution(3, 3, false, init)), {}, /*relu=*/true); },
       then_relu(
           reference_sum([](const Inputs& in) { return in.x; },
                         reference_chain({{reference_convolution(3, 3, false), 2, {2, 4, 4, 3}}}))),
       {2, 4, 4, 3},
       1e-5,
       5e-2},
      {"residual_relu_with_shortcut",
       [=] {
         return residual(named(convolution(5, 3, true, init)), named(convolution(5, 1, true, init)),
                         /*relu=*/true);
       },
       then_relu(reference_sum(
           reference_chain({{reference_convolution(5, 1, true), 2, {2, 4, 4, 5}}}),
           reference_chain({{reference_convolution(5, 3, true), 2, {2, 4, 4, 5}}}, 2))),
       {2, 4, 4, 3},
       1e-5,
       5e-2},
  };
}

}  // namespace lockstep
