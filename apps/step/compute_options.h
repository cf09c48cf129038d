// Options of the device that a rank computes on.
#pragma once

#include <string>

#include "src/base/option_rows.h"

namespace lockstep {

struct ComputeOptions {
  std::string name = "auto";
  std::string convolution = "auto";
  std::string isa = "auto";
  bool deterministic = false;
  bool tf32 = false;
  bool no_graph = false;
  int threads = 0;  ///< per rank; 0: the node's cores divided by its ranks

  void declare(OptionRows& rows);
};

}  // namespace lockstep
