// The network of a published Keras example on MNIST with several devices: Keras' mnist_cnn.py with
// one convolution and a batch normalisation more. Published: 0.9911 to 0.9926 of the test images
// after 12 epochs.

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
  layers.emplace_back("conv1", convolution(32, 3, relu, init, valid));
  layers.emplace_back("conv2", convolution(256, 3, relu, init, valid));
  layers.emplace_back("norm", batch_norm({.follow = 0.01f, .epsilon = 1e-3f}));
  layers.emplace_back("conv3", convolution(128, 3, relu, init, valid));
  layers.emplace_back("pool", max_pool(2, 2, linear, Padding::valid));
  layers.emplace_back("dropout1", dropout(0.25f));
  layers.emplace_back("flatten", flatten());
  layers.emplace_back("fc1", dense(128, relu, init));
  layers.emplace_back("dropout2", dropout(0.5f));
  layers.emplace_back("out", dense(classes, linear, init));
  return layers;
}

}  // namespace

ModelEntry keras() {
  return {.name = "keras",
          .about =
              "a Keras example for MNIST: 3 convolutions, batch normalisation, 2 dense "
              "layers, dropout, 2.35 M parameters; RMSprop, 128 per rank, 12 epochs",
          .sample = {1, 28, 28, 1},
          .any_image = false,
          .build = build,
          .recipe = "optimizer = rmsprop, batch = 128, epochs = 12, ema = 0, epoch-lines = true"};
}

}  // namespace lockstep
