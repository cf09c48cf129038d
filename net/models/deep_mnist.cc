// The convolutional network of TensorFlow's tutorial "Deep MNIST for Experts" (mnist_deep.py),
// layer for layer, with its keep probability of 0.5. Each ReLU stands behind its pool, which
// commutes. Weights begin with the deviations of He et al. 2015, sqrt(2 / inputs), where the
// tutorial's 0.1 throughout is for Adam: plain gradient descent would diverge from it.

#include "net/layers.h"
#include "net/model.h"

namespace lockstep {
namespace {

NamedLayers build(Shape /*sample*/, int classes) {
  const bool relu = true, linear = false;
  NamedLayers layers;
  layers.emplace_back("conv1",
                      convolution(32, 5, linear, {.weight_deviation = 0.28f, .bias = 0.1f}));
  layers.emplace_back("pool1", max_pool(2, 2, relu));
  layers.emplace_back("conv2",
                      convolution(64, 5, linear, {.weight_deviation = 0.05f, .bias = 0.1f}));
  layers.emplace_back("pool2", max_pool(2, 2, relu));
  layers.emplace_back("fc1", dense(1024, relu, {.weight_deviation = 0.025f, .bias = 0.1f}));
  layers.emplace_back("dropout", dropout(0.5f));
  layers.emplace_back("fc2", dense(classes, linear, {.weight_deviation = 0.03f, .bias = 0.1f}));
  return layers;
}

}  // namespace

ModelEntry deep_mnist() {
  return {"deep_mnist",
          "the network of TensorFlow's tutorial Deep MNIST: 2 convolutions, 2 dense layers, 3.27 M "
          "parameters",
          {1, 28, 28, 1},
          /*any_image=*/false,
          build};
}

}  // namespace lockstep
