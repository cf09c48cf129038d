// LayerRow: a layer as data, such as {type = "convolution", filters = 64, kernel = 3}.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/chain.h"
#include "src/base/option_rows.h"

namespace lockstep {

/// The keys of one layer. Its kind (layer_kinds.h) reads each of its keys once, in the order of the
/// documentation, and so declares them. Calls throw the usage Error, which names the key's place,
/// if the value has another type or lies outside its range. A key without a default must be there.
class LayerRow {
 public:
  virtual ~LayerRow() = default;
  virtual std::int64_t whole(const std::string& key, const Bounds& range,
                             std::optional<std::int64_t> by_default = {}) = 0;
  virtual float number(const std::string& key, const Bounds& range,
                       std::optional<float> by_default = {}) = 0;
  virtual bool flag(const std::string& key, bool by_default) = 0;
  /// One of `names`; the default is the first.
  virtual std::string choice(const std::string& key,
                             const std::vector<std::string_view>& names) = 0;
  /// The name of layers within this one.
  virtual std::string name(const std::string& key, const std::string& by_default) = 0;
  /// The layers of a list. Their names begin with `prefix`, if it is not empty. A list that is not
  /// `required` may be absent.
  virtual NamedLayers layers(const std::string& key, const std::string& prefix, bool required) = 0;
  /// Throws the usage Error about `key`: `what` is wrong, and what to do.
  [[noreturn]] virtual void fail_at(const std::string& key, const std::string& what) const = 0;
};

}  // namespace lockstep
