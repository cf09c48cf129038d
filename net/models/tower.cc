// The network of the example "Multi-GPU CNN" of Aymeric Damien's TensorFlow-Examples, each of whose
// towers was one device. Its dense layers have no ReLU, and 0.75 is the share that dropout drops.
// Published: 0.9907 of the test images after 200 steps on two devices.

#include "net/layers.h"
#include "net/model.h"
#include "net/models/mnist_pixels.h"

namespace lockstep {
namespace {

NamedLayers build(Shape /*sample*/, int classes) {
  const bool relu = true, linear = false;
  const AffineInit init{.glorot = true};
  const ConvolutionOptions valid{.padding = Padding::valid};
  NamedLayers layers;
  layers.emplace_back("pixels", pixels_from_mnist());
  layers.emplace_back("conv1", convolution(64, 5, relu, init, valid));
  layers.emplace_back("pool1", max_pool(2, 2, linear, Padding::valid));
  layers.emplace_back("conv2", convolution(256, 3, relu, init, valid));
  layers.emplace_back("conv3", convolution(512, 3, relu, init, valid));
  layers.emplace_back("pool2", max_pool(2, 2, linear, Padding::valid));
  layers.emplace_back("flatten", flatten());
  layers.emplace_back("fc1", dense(2048, linear, init));
  layers.emplace_back("dropout1", dropout(0.75f));
  layers.emplace_back("fc2", dense(1024, linear, init));
  layers.emplace_back("dropout2", dropout(0.75f));
  layers.emplace_back("out", dense(classes, linear, init));
  return layers;
}

}  // namespace

ModelEntry tower() {
  return {.name = "tower",
          .about =
              "the example Multi-GPU CNN: 3 convolutions, 3 dense layers, dropout, 20.2 M "
              "parameters; Adam, 1024 per rank, 200 steps",
          .sample = {1, 28, 28, 1},
          .any_image = false,
          .build = build,
          .recipe = "optimizer = adam, batch = 1024, steps = 200, ema = 0"};
}

}  // namespace lockstep
