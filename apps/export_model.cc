// Writes the network of a checkpoint for other programs: ONNX or safetensors.

#include "apps/use/use.h"

int main(int argc, char** argv) {
  return lockstep::export_model_main(argc, argv, {"export_model"});
}
