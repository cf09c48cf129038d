// TomlRow: the row of a layer in a network's file.
#pragma once

#include <set>

#include "net/description/network_builder.h"

namespace lockstep {

class TomlRow : public LayerRow {
 public:
  /// All arguments outlive it. `path`: the full name of the layer.
  TomlRow(NetworkBuilder& builder, const toml::table& table, NetworkScope& scope, std::string type,
          std::string path)
      : builder_(builder),
        table_(table),
        scope_(scope),
        type_(std::move(type)),
        path_(std::move(path)) {}

  std::int64_t whole(const std::string& key, const Bounds& range,
                     std::optional<std::int64_t> by_default) override;
  float number(const std::string& key, const Bounds& range,
               std::optional<float> by_default) override;
  bool flag(const std::string& key, bool by_default) override;
  std::string choice(const std::string& key, const std::vector<std::string_view>& names) override;
  std::string name(const std::string& key, const std::string& by_default) override;
  NamedLayers layers(const std::string& key, const std::string& prefix, bool required) override;
  [[noreturn]] void fail_at(const std::string& key, const std::string& what) const override;

  /// Throws the usage Error if the table has a key that was not read. `of_block`: it is that of a
  /// block, and no row of a list.
  void finish(bool of_block) const;
  bool has_layers() const { return has_layers_; }

 private:
  /// The value of `key`; nothing if it is absent. Throws the usage Error if it is `required`.
  std::optional<NetworkValue> take(const std::string& key, bool required);

  NetworkBuilder& builder_;
  const toml::table& table_;
  NetworkScope& scope_;
  std::string type_, path_;
  std::set<std::string> read_;
  bool has_layers_ = false;
};

}  // namespace lockstep
