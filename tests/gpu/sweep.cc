// Every layer with kernels of its own on a GPU against the CPU, over shapes that fill no warp, no
// block and no pack of 16 bytes, or just one more.
#include "src/device/cuda/device.h"
#include "tests/unit/layers.cc"

namespace lockstep {
namespace {

using Make = std::function<std::unique_ptr<Layer>()>;

/// Largest relative errors of fp32 and of 16-bit types.
struct Tolerances {
  double wide = 1e-5, narrow = 2e-2;
};

void sweep(const char* name, const Make& make, const std::vector<Shape>& shapes,
           Tolerances tolerances = {}) {
  static const std::unique_ptr<Device> gpu = make_cuda_device({.threads = 1});
  for (const Shape& x : shapes) {
    const LayerCase c{name, make, {}, x};
    const Outcome wanted = run_case(c, Type::f32, 1, true);
    for (const Type type : {Type::f32, Type::bf16}) {
      SCOPED_TRACE(fmt::format("{} {} {}", name, x.text(), name_of(type)));
      expect_near(run_case(c, type, gpu.get(), true), wanted,
                  type == Type::f32 ? tolerances.wide : tolerances.narrow);
    }
  }
}

/// Images of `n` x `h` x `w` with each of these numbers of channels.
std::vector<Shape> images(std::int64_t n, std::int64_t h, std::int64_t w,
                          const std::vector<std::int64_t>& channels = {
                              1, 2, 3, 7, 8, 16, 31, 32, 33, 64, 100, 129, 256, 257}) {
  std::vector<Shape> shapes;
  for (const std::int64_t c : channels) shapes.push_back({n, h, w, c});
  return shapes;
}

TEST(Sweep, BatchNorm) {
  for (const auto activation : {Activation::none, Activation::relu, Activation::gelu,
                                Activation::hard_swish}) {
    const Make make = [=] { return batch_norm({.epsilon = 0.25f, .activation = activation}); };
    sweep("batch_norm", make, images(3, 5, 7), {1e-5, 4e-2});
    sweep("batch_norm of rows", make,
          {{1, 1, 2, 24}, {31, 1, 1, 10}, {32, 16}, {33, 5}, {1023, 4}, {1025, 8}, {5000, 3}},
          {1e-4, 4e-2});
  }
  sweep("batch_norm without scale", [] { return batch_norm({.epsilon = 0.25f, .scale = false}); },
        images(2, 3, 5), {1e-5, 4e-2});
}

TEST(Sweep, LayerNorm) {
  const Make make = [] { return layer_norm(0.25f); };
  sweep("layer_norm", make, images(2, 3, 5));
  sweep("layer_norm of rows", make, {{1, 1023}, {3, 1025}, {1000, 9}, {5000, 2}, {33, 768}});
}

TEST(Sweep, Pools) {
  const std::vector<std::int64_t> channels{1, 3, 8, 12, 16, 33, 64, 70};
  for (const auto padding : {Padding::same, Padding::valid, Padding::centred}) {
    for (const auto [size, stride] : {std::pair{2, 2}, {3, 2}, {3, 1}, {5, 3}}) {
      sweep(
          "max_pool", [=] { return max_pool(size, stride, false, padding); },
          images(2, 7, 9, channels));
      sweep(
          "max_pool with ReLU", [=] { return max_pool(size, stride, true, padding); },
          images(2, 8, 6, {4, 24}));
      if (padding == Padding::centred) continue;
      sweep(
          "average_pool", [=] { return average_pool(size, stride, padding); },
          images(2, 7, 9, channels));
    }
  }
  sweep("global_average_pool", global_average_pool, images(3, 5, 7));
  sweep("global_max_pool", global_max_pool, images(3, 5, 7));
}

TEST(Sweep, Attention) {
  for (const std::int64_t tokens : {1, 5, 7, 8, 9, 33, 50}) {
    for (const int heads : {1, 2, 3}) {
      sweep("attention", [=] { return attention(heads); },
            {{2, tokens, 3 * heads * 4}, {1, tokens, 3 * heads * 5}, {2, tokens, 3 * heads * 8}},
            {1e-5, 6e-2});
    }
  }
}

TEST(Sweep, Units) {
  const std::vector<Shape> shapes{{1, 1},    {1, 7},    {31, 1},  {32, 33},
                                  {1023, 1}, {1025, 3}, {8, 1000}};
  sweep("gelu", gelu, shapes);
  sweep("silu", silu, shapes);
  sweep(
      "relu", [] { return relu(); }, shapes);
  sweep("hard_swish", hard_swish, shapes);
  sweep("hard_sigmoid", hard_sigmoid, shapes);
  sweep(
      "rescale", [] { return rescale(0.75f, -0.5f); }, shapes);
  sweep(
      "dropout", [] { return dropout(0.4f); }, shapes);
  sweep("stochastic_depth", [] { return stochastic_depth(0.4f); },
        {{3, 5, 7, 3}, {9, 33}, {4, 2, 2, 64}});
  sweep("softmax", softmax, {{1, 1}, {5, 7}, {33, 32}, {2, 1000}, {7, 1025}});
}

TEST(Sweep, Others) {
  sweep(
      "layer_scale", [] { return layer_scale(1); }, images(2, 5, 7));
  for (const std::int64_t c : {1, 3, 8, 24, 33, 64}) {
    sweep("squeeze_excitation", [=] { return squeeze_excitation(c, 4); },
          {{3, 5, 7, c}, {2, 1, 1, c}, {1, 16, 17, c}}, {1e-4, 6e-2});
  }
  const std::vector<Shape> tokens{{3, 5, 8}, {2, 7, 9}, {1, 1, 64}, {5, 33, 16}};
  sweep("class_token", class_token, tokens);
  sweep(
      "position_embedding", [] { return position_embedding(1); }, tokens);
  sweep("first_token", first_token, tokens);
  sweep("subsample", [] { return subsample(2, 40); }, {{2, 5, 6, 3}, {1, 8, 8, 33}, {2, 7, 7, 16}});
  sweep(
      "response_norm", [] { return response_norm(4, 1, 0.3f, 0.75f); },
      images(2, 3, 3, {1, 5, 9, 33, 64}));
}

}  // namespace
}  // namespace lockstep
