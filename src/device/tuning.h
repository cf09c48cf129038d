// Which plan was fastest for which work, as text: found by one rank, told to the others, kept for
// the next run. One line for what it holds for (library and device), then one per piece of work:
//
//   lockstep tuning for cuDNN 9.19.0 on NVIDIA H200
//   forward bf16 128x24x24x3 64x5x5x3 128x24x24x64 stride 1x1 pad 2x2 dilation 1x1 bias =
//   eng41_k2=4
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep {

class Tuning {
 public:
  /// Empty, for `platform`: "cuDNN 9.19.0 on NVIDIA H200".
  explicit Tuning(std::string platform) : platform_(std::move(platform)) {}

  /// Takes what text() gave in place of all that is noted. False, and nothing is changed, where
  /// the text is for another platform; throws Error with the line where it is no such text.
  bool take(std::string_view text);
  std::string text() const;
  const std::string& platform() const { return platform_; }
  bool empty() const { return plans_.empty(); }
  /// By work.
  const std::map<std::string, std::string>& plans() const { return plans_; }

  /// The plan noted for `work`; null if none is.
  const std::string* find(const std::string& work) const;
  /// Neither has a line break in it, nor `work` an '='.
  void note(const std::string& work, const std::string& plan);

 private:
  std::string platform_;
  std::map<std::string, std::string> plans_;
};

}  // namespace lockstep
