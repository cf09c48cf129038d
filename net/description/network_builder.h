// NetworkBuilder: makes the layers that the tables of a network's file describe. Only the files of
// this folder include it.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "net/chain.h"
#include "src/base/check.h"
#include "src/files/toml.h"

namespace lockstep {

/// A value in the file. A text "$name" stands for a variable.
using NetworkValue = std::variant<std::int64_t, double, bool, std::string>;

/// The value as a text.
std::string text_of(const NetworkValue& value);

/// " (did you mean relu?)" if one of `known` is near to `name`. Else it is empty.
std::string hint_at(std::string_view name, const std::vector<std::string_view>& known);

/// The variables that a row may name.
struct NetworkScope {
  std::string file;
  std::map<std::string, NetworkValue> values = {};
  std::map<std::string, bool> used = {};  ///< of those that a block's row passes
  /// " (used in line 7)" within a block; for errors.
  std::string from = {};

  /// "net.toml:7": the place of a node or a key.
  template <class Node>
  std::string place(const Node& node) const {
    return fmt::format("{}:{}{}", file, node.source().begin.line, from);
  }
  /// Throws the usage Error "net.toml:7: key: what".
  template <class Node>
  [[noreturn]] void fail_at(const Node& node, const std::string& key,
                            const std::string& what) const {
    fail_usage("{}: {}: {}", place(node), key, what);
  }
  /// The value of `node` with variables replaced. Throws the usage Error.
  NetworkValue value_of(const toml::node& node, const std::string& key);
};

/// A parsed file. Layers are made from it again for each Model.
struct NetworkFile {
  std::string file;
  toml::table tables;
  bool words = false;
  /// Its errors name no line, because users cannot change it.
  bool built_in = false;
};

/// Makes the layers once. The file outlives it. One thread.
class NetworkBuilder {
 public:
  NetworkBuilder(const NetworkFile& network, int classes)
      : network_(network),
        tables_(network.tables),
        classes_(classes),
        constants_{network.file, {{"classes", std::int64_t{classes}}}} {}

  /// The layers of the list `layers` at the top. Throws the usage Error.
  NamedLayers build();

 private:
  friend class LayerRow;

  /// The place of a row in its list.
  struct Position {
    bool first = false, last = false;  ///< of the network
    bool of_block = false;             ///< it is the table of a block
  };

  /// The layers of the list `node` within the layer of that path; empty: those at the top.
  NamedLayers list(const toml::node& node, const std::string& key, NetworkScope& scope,
                   const std::string& path);
  /// One row of a list, which may stand for several layers.
  void add(const toml::table& row, NetworkScope& scope, const std::string& path,
           NamedLayers& layers, bool last);
  /// The layer of the table `row`: of a kind, or of a block with its own table.
  std::unique_ptr<Layer> make(const toml::table& row, NetworkScope& scope, const std::string& path,
                              Position position);
  std::unique_ptr<Layer> make_block(const toml::table& row, const toml::table& block,
                                    const std::string& type, NetworkScope& scope,
                                    const std::string& path, Position position);
  /// The variables of a block that `row` uses.
  NetworkScope scope_of_block(const toml::table& row, const toml::table& block,
                              NetworkScope& scope);
  /// The full name of a row's layer, not taken yet if the row names none.
  std::string name_of(const toml::table& row, NetworkScope& scope, const std::string& path,
                      std::string& name);
  /// Notes the full name of a layer that contains no others.
  void take(const std::string& path, const toml::table& row, const NetworkScope& scope);
  std::string type_of(const toml::table& row, NetworkScope& scope);

  const NetworkFile& network_;
  const toml::table& tables_;
  const int classes_;
  int made_ = 0;
  int depth_ = 0;                             ///< layers and blocks around the current row
  NetworkScope constants_;                    ///< the variables that every row may name
  std::map<std::string, std::string> taken_;  ///< full names and their places
  std::set<std::string> named_;               ///< all full names
  std::vector<std::string> open_;             ///< blocks around the current row
};

}  // namespace lockstep
