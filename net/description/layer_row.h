// LayerRow: the row of a layer in a network's file, such as {type = "convolution", filters = 64,
// kernel = 3}.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "net/description/network_builder.h"
#include "src/base/option_rows.h"

namespace lockstep {

/// The keys of one layer. Its kind (layer_kinds.h) reads each of its keys once, in the order of the
/// documentation, and so declares them. Calls throw the usage Error, which names the key's place,
/// if the value has another type or lies outside its range. A key without a default must be there.
/// Tests list the keys by a row of their own.
class LayerRow {
 public:
  /// All arguments outlive it. `path`: the full name of the layer.
  LayerRow(NetworkBuilder& builder, const toml::table& table, NetworkScope& scope, std::string type,
           std::string path)
      : builder_(&builder),
        table_(&table),
        scope_(&scope),
        type_(std::move(type)),
        path_(std::move(path)) {}
  virtual ~LayerRow() = default;

  virtual std::int64_t whole(const std::string& key, const Bounds& range,
                             std::optional<std::int64_t> by_default = {});
  virtual float number(const std::string& key, const Bounds& range,
                       std::optional<float> by_default = {});
  virtual bool flag(const std::string& key, bool by_default);
  /// One of `names`; the default is the first.
  virtual std::string choice(const std::string& key, const std::vector<std::string_view>& names);
  /// The name of layers within this one.
  virtual std::string name(const std::string& key, const std::string& by_default);
  /// The layers of a list. Their names begin with `prefix`, if it is not empty. A list that is not
  /// `required` may be absent.
  virtual NamedLayers layers(const std::string& key, const std::string& prefix, bool required);
  /// Throws the usage Error about `key`: `what` is wrong, and what to do.
  [[noreturn]] virtual void fail_at(const std::string& key, const std::string& what) const;

  /// Throws the usage Error if the table has a key that was not read. `of_block`: it is that of a
  /// block, and no row of a list.
  void finish(bool of_block) const;
  bool has_layers() const { return has_layers_; }

 protected:
  LayerRow() = default;  ///< for a row that overrides all virtual functions

 private:
  /// The value of `key`; nothing if it is absent. Throws the usage Error if it is `required`.
  std::optional<NetworkValue> take(const std::string& key, bool required);
  /// The same as a T that is `ok`. The error of another value ends with `problem`.
  template <class T, class Ok>
  T take_as(const std::string& key, const std::optional<T>& by_default, Ok ok,
            const std::string& problem);

  NetworkBuilder* builder_ = nullptr;
  const toml::table* table_ = nullptr;
  NetworkScope* scope_ = nullptr;
  std::string type_, path_;
  std::set<std::string> read_;
  bool has_layers_ = false;
};

}  // namespace lockstep
