// The network of TensorFlow's CIFAR-10 tutorial (tensorflow/models, tutorials/image/cifar10), layer
// for layer, after Krizhevsky's cuda-convnet. conv1's ReLU stands behind its pool: maximum and ReLU
// commute, gradients included, and there it touches a quarter of the elements.

#include "net/layers.h"
#include "net/model.h"

namespace lockstep {
namespace {

NamedLayers build(Shape /*sample*/, int classes) {
  const auto norm = [] { return response_norm(4, 1.0f, 0.001f / 9, 0.75f); };
  const bool relu = true, linear = false;
  NamedLayers layers;
  layers.emplace_back("conv1",
                      convolution(64, 5, linear, {.weight_deviation = 0.05f, .bias = 0.0f}));
  layers.emplace_back("pool1", max_pool(3, 2, relu));
  layers.emplace_back("norm1", norm());
  layers.emplace_back("conv2", convolution(64, 5, relu, {.weight_deviation = 0.05f, .bias = 0.1f}));
  layers.emplace_back("norm2", norm());
  layers.emplace_back("pool2", max_pool(3, 2, linear));
  layers.emplace_back("local3",
                      dense(384, relu, {.weight_deviation = 0.04f, .bias = 0.1f, .l2 = 0.004f}));
  layers.emplace_back("local4",
                      dense(192, relu, {.weight_deviation = 0.04f, .bias = 0.1f, .l2 = 0.004f}));
  layers.emplace_back("softmax_linear",
                      dense(classes, linear, {.weight_deviation = 1 / 192.0f, .bias = 0.0f}));
  return layers;
}

}  // namespace

ModelEntry tutorial() {
  return {"tutorial",
          "the TensorFlow CIFAR-10 tutorial network: 2 convolutions, 3 dense layers, 1.07 M "
          "parameters",
          {1, 24, 24, 3},
          /*any_image=*/true,
          build};
}

}  // namespace lockstep
