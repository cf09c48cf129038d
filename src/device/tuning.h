// The fastest plan of each piece of work, as text. One rank measures; the other ranks and the next
// run read the text. Its first line names library and device, each other line a piece of work:
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

  /// Replaces all plans by those in `text`, a result of text(). Returns false and changes nothing
  /// if it is for another platform. Throws Error that names the line if it is invalid.
  bool set_text(std::string_view text);
  std::string text() const;
  /// The beginning of work whose plan was chosen without a measurement, because time was short.
  static constexpr const char* kUntimed = "not timed: ";
  /// `text`, a result of text(), without such work.
  static std::string timed_part(std::string_view text);
  const std::string& platform() const { return platform_; }
  bool empty() const { return plans_.empty(); }
  /// Plans by work.
  const std::map<std::string, std::string>& plans() const { return plans_; }

  /// The plan for `work`; null: none is known.
  const std::string* find(const std::string& work) const;
  /// Sets the plan for `work`. Neither contains a line break, and `work` contains no '='.
  void note(const std::string& work, const std::string& plan);

 private:
  std::string platform_;
  std::map<std::string, std::string> plans_;
};

}  // namespace lockstep
