#include "net/description/network_builder.h"

#include <algorithm>
#include <utility>

#include "net/description/layer_kinds.h"
#include "net/description/toml_row.h"
#include "src/base/check.h"
#include "src/base/table.h"
#include "src/base/text.h"

namespace lockstep {
namespace {

constexpr int kMostLayers = 10'000;
constexpr std::int64_t kMostRepeats = 1'000;
constexpr int kMostDepth = 32;                 // layers and blocks within others
constexpr std::size_t kLongestText = 1 << 10;  // bytes, with its variables replaced
constexpr const char* kBlocks = "block";

bool is_letter(char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// The end of the name that begins at `begin`.
std::size_t end_of_name(const std::string& text, std::size_t begin) {
  while (begin < text.size() &&
         (is_letter(text[begin]) || (text[begin] >= '0' && text[begin] <= '9')))
    ++begin;
  return begin;
}

/// An error that names a line already.
class PlacedError : public Error {
 public:
  explicit PlacedError(const std::string& text) : Error(text, kExitUsage) {}
};

/// 256 GiB of floats. The bytes of ten thousand such arrays are below 2^63.
constexpr double kMostElements = 0x1p36;

bool fits(Shape shape) {
  double count = 1;  // because a product of integers may overflow
  for (int axis = 0; axis < shape.rank(); ++axis) count *= static_cast<double>(shape[axis]);
  return count >= 1 && count <= kMostElements;
}

/// `layer`, whose errors in setup() begin with `place` ("net.toml:7"). It also refuses shapes that
/// are too large to count their bytes and, if `classes` is above 0, a result that is not one logit
/// for each class.
class PlacedLayer : public Layer {
 public:
  PlacedLayer(std::unique_ptr<Layer> layer, std::string place, int classes)
      : layer_(std::move(layer)), place_(std::move(place)), classes_(classes) {}

  Shape setup(Setup& setup, Shape in) override {
    try {
      const Shape out = layer_->setup(setup, in);
      require(fits(out), "the layer returns {}, which is too large", out.text());
      for (const Parameter& parameter : setup.parameters) {
        require(fits(parameter.shape), "its {} are {}, which is too large", parameter.name,
                parameter.shape.text());
      }
      require(classes_ == 0 || out == Shape{in[0], classes_},
              "the last layer returns {}, and the data need {} x {}: one number for each class. "
              "End with type = \"dense\", features = \"$classes\"",
              out.text(), in[0], classes_);
      return out;
    } catch (const PlacedError&) {
      throw;
    } catch (const OutOfMemory&) {
      throw;
    } catch (const Error& error) {
      throw PlacedError(
          fmt::format("{}: {}. Change this line, or the layers before it.", place_, error.what()));
    }
  }
  void forward(LayerCall& call, View x, View y) override { layer_->forward(call, x, y); }
  void backward(LayerCall& call, View x, View y, View dy, View dx) override {
    layer_->backward(call, x, y, dy, dx);
  }
  bool keeps_dy() const override { return layer_->keeps_dy(); }
  double multiply_adds() const override { return layer_->multiply_adds(); }
  std::string implementation() const override { return layer_->implementation(); }
  std::string kind() const override { return layer_->kind(); }

 private:
  std::unique_ptr<Layer> layer_;
  std::string place_;
  int classes_;
};

}  // namespace

void fail_in_file(const std::string& file, const toml::source_region& place,
                  const std::string& from, const std::string& key, const std::string& what) {
  fail_usage("{}:{}{}: {}: {}", file, place.begin.line, from, key, what);
}

NetworkValue value_of(const toml::node& node, NetworkScope& scope, const std::string& file,
                      const std::string& key) {
  const auto fail_here = [&](const std::string& what) {
    fail_in_file(file, node.source(), scope.from, key, what);
  };
  if (const auto whole = node.value_exact<std::int64_t>()) return *whole;
  if (const auto number = node.value_exact<double>()) return *number;
  if (const auto flag = node.value_exact<bool>()) return *flag;
  const auto text = node.value_exact<std::string>();
  if (!text)
    fail_here("this is a date, a time, a list or a table. Write a number, a text, true or false.");
  std::string result;
  for (std::size_t at = 0; at < text->size();) {
    if ((*text)[at] != '$') {
      result += (*text)[at++];
      continue;
    }
    const std::size_t end = end_of_name(*text, at + 1);
    const std::string name = text->substr(at + 1, end - at - 1);
    const auto found = scope.values.find(name);
    if (found == scope.values.end()) {
      std::vector<std::string_view> known;
      for (const auto& [other, value] : scope.values) known.push_back(other);
      fail_here(fmt::format("${} has no value here. The variables are ${}.", one_line(name),
                            fmt::join(known, ", $")));
    }
    scope.used[name] = true;
    if (at == 0 && end == text->size()) return found->second;
    std::visit([&](const auto& value) { result += fmt::format("{}", value); }, found->second);
    if (result.size() > kLongestText) {
      fail_here(fmt::format(
          "this text has more than {} bytes with its variables. Use a shorter one.", kLongestText));
    }
    at = end;
  }
  return result;
}

std::string NetworkBuilder::place(const toml::node& node, const NetworkScope& scope) const {
  return fmt::format("{}:{}{}", file_, node.source().begin.line, scope.from);
}

void NetworkBuilder::fail_at(const toml::node& node, const NetworkScope& scope,
                             const std::string& key, const std::string& what) const {
  fail_in_file(file_, node.source(), scope.from, key, what);
}

NamedLayers NetworkBuilder::build() {
  constants_ = {{"classes", std::int64_t{classes_}}};
  NetworkScope scope{.values = constants_};
  if (const toml::table* variables = tables_["variables"].as_table()) {
    for (const auto& [key, node] : *variables) {
      const std::string name(key.str());
      constants_[name] = value_of(node, scope, file_, one_line(name));
    }
  }
  scope.values = constants_;
  const toml::node* layers = tables_.get("layers");
  if (!layers) fail_at(tables_, scope, "layers", "the network has none. Add layers = [ ... ].");
  return list(*layers, "layers", scope, "");
}

NamedLayers NetworkBuilder::list(const toml::node& node, const std::string& key,
                                 NetworkScope& scope, const std::string& path) {
  const toml::array* rows = node.as_array();
  const std::string example = fmt::format("{} = [ {{type = \"relu\"}}, ... ].", key);
  if (!rows || rows->empty()) {
    fail_at(node, scope, key,
            (rows ? "the list has no layers. Write " : "this is no list. Write ") + example);
  }
  NamedLayers layers;
  for (std::size_t i = 0; i < rows->size(); ++i) {
    const toml::table* row = (*rows)[i].as_table();
    if (!row) fail_at((*rows)[i], scope, key, "a layer is a table. Write " + example);
    add(*row, scope, path, layers, open_.empty() && i + 1 == rows->size());
  }
  return layers;
}

void NetworkBuilder::add(const toml::table& row, NetworkScope& scope, const std::string& path,
                         NamedLayers& layers, bool last) {
  std::int64_t begin = 0, end = 1;
  const toml::node* repeat = row.get("repeat");
  if (repeat) {
    const toml::array* range = repeat->as_array();
    const auto number = [&](const toml::node& node) {
      const NetworkValue value = value_of(node, scope, file_, "repeat");
      const auto* whole = std::get_if<std::int64_t>(&value);
      if (!whole || *whole < 0 || *whole > kMostRepeats) {
        fail_at(node, scope, "repeat",
                fmt::format("it needs whole numbers from 0 to {}. Write repeat = 3, or [1, 3].",
                            kMostRepeats));
      }
      return *whole;
    };
    if (range && range->size() != 2)
      fail_at(*repeat, scope, "repeat", "a range has two ends. Write [1, 3].");
    begin = range ? number((*range)[0]) : 0;
    end = range ? number((*range)[1]) + 1 : number(*repeat);
    if (end <= begin)
      fail_at(*repeat, scope, "repeat", "it repeats nothing. Write a larger number.");
  }
  for (std::int64_t i = begin; i < end; ++i) {
    if (++made_ > kMostLayers) {
      fail_at(row, scope, "layers",
              fmt::format("there are more than {} layers. Use fewer.", kMostLayers));
    }
    if (repeat) scope.values["i"] = i;
    std::string name;
    const std::string full = name_of(row, scope, path, name);
    const bool top = path.empty();
    auto layer = make(row, scope, full,
                      {.first = top && layers.empty(), .last = top && last && i + 1 == end});
    layers.emplace_back(name, std::move(layer));
  }
  if (repeat) scope.values.erase("i");
}

std::string NetworkBuilder::type_of(const toml::table& row, NetworkScope& scope) {
  const toml::node* node = row.get("type");
  if (!node) fail_at(row, scope, "type", "it is missing. Add type = and the name of a layer.");
  const NetworkValue value = value_of(*node, scope, file_, "type");
  const auto* type = std::get_if<std::string>(&value);
  if (!type) fail_at(*node, scope, "type", "this is no text. Write the name of a layer.");
  return *type;
}

std::string NetworkBuilder::name_of(const toml::table& row, NetworkScope& scope,
                                    const std::string& path, std::string& name) {
  const std::string type = type_of(row, scope);
  TomlRow reader(*this, row, scope, type, path);
  name = reader.name("name", type);
  const auto full = [&] { return path + (path.empty() || name.empty() ? "" : "/") + name; };
  if (!row.get("name")) {
    for (int number = 2; named_.contains(full()); ++number)
      name = fmt::format("{}_{}", type, number);
  }
  if (full().empty()) reader.fail_at("name", "it is empty. Write a name.");
  named_.insert(full());
  return full();
}

void NetworkBuilder::take(const std::string& path, const toml::table& row,
                          const NetworkScope& scope) {
  std::string name = path;  // in exported files, where a.b is also layer b of chain a
  std::replace(name.begin(), name.end(), '/', '.');
  const auto [other, is_new] = taken_.emplace(name, place(row, scope));
  if (!is_new) {
    fail_at(row, scope, "name",
            fmt::format("the layer {} is also in {}. Use another name{}.", name, other->second,
                        row.get("repeat") ? ", such as name = \"dense$i\"" : ""));
  }
}

const toml::table* NetworkBuilder::block_called(const std::string& type) const {
  return tables_[kBlocks][type].as_table();
}

std::unique_ptr<Layer> NetworkBuilder::make(const toml::table& row, NetworkScope& scope,
                                            const std::string& path, Position position) {
  const std::string type = type_of(row, scope);
  struct Deeper {
    int& depth;
    ~Deeper() { --depth; }
  } const deeper{++depth_};
  if (depth_ > kMostDepth) {
    fail_at(
        row, scope, "type",
        fmt::format("more than {} layers and blocks contain each other. Use fewer.", kMostDepth));
  }
  if (const toml::table* block = block_called(type))
    return make_block(row, *block, type, scope, path, position);
  const LayerKind* kind = find_or_null(layer_kinds(), type);
  if (kind == nullptr) {
    std::vector<std::string_view> known;
    for (const LayerKind& entry : layer_kinds()) known.push_back(entry.name);
    if (const toml::table* blocks = tables_[kBlocks].as_table())
      for (const auto& [name, block] : *blocks) known.push_back(name.str());
    const std::string near = nearest(type, known);
    fail_at(*row.get("type"), scope, "type",
            fmt::format("there is no layer \"{}\"{}. --list shows all.", one_line(type),
                        near.empty() ? "" : fmt::format(" (did you mean {}?)", near)));
  }
  // Other layers compute with the words' numbers, and an embedding with numbers that are no words.
  const bool needed = words_ && position.first;
  if ((type == "embedding") != needed) {
    fail_at(row, scope, "type",
            needed ? "texts need an embedding first. Begin with type = \"embedding\"."
                   : "an embedding is the first layer of a network for texts. Remove it.");
  }
  TomlRow reader(*this, row, scope, type, path);
  std::unique_ptr<Layer> layer = kind->make(reader);
  reader.finish(position.of_block);
  if (!reader.has_layers()) take(path, row, scope);
  if (network_.built_in) return layer;
  return std::make_unique<PlacedLayer>(std::move(layer), place(row, scope),
                                       position.last ? classes_ : 0);
}

NetworkScope NetworkBuilder::scope_of_block(const toml::table& row, const toml::table& block,
                                            NetworkScope& scope) {
  NetworkScope inner{.values = constants_};
  inner.from = fmt::format(" (used in line {})", row.source().begin.line);
  const auto set = [&](const toml::table& table, NetworkScope& named) {
    for (const auto& [key, node] : table) {
      const std::string name(key.str());
      if (name != "type" && name != "name" && name != "repeat")
        inner.values[name] = value_of(node, named, file_, one_line(name));
    }
  };
  if (const toml::node* defaults = block.get("defaults")) {
    if (!defaults->is_table())
      fail_at(*defaults, scope, "defaults", "this is no table. Write defaults = {stride = 1}.");
    NetworkScope constants{.values = constants_};
    set(*defaults->as_table(), constants);
  }
  set(row, scope);
  return inner;
}

std::unique_ptr<Layer> NetworkBuilder::make_block(const toml::table& row, const toml::table& block,
                                                  const std::string& type, NetworkScope& scope,
                                                  const std::string& path, Position position) {
  if (std::find(open_.begin(), open_.end(), type) != open_.end()) {
    fail_at(row, scope, "type",
            fmt::format("the block {} contains itself. Use another layer.", type));
  }
  NetworkScope inner = scope_of_block(row, block, scope);
  open_.push_back(type);
  position.of_block = true;
  auto layer = make(block, inner, path, position);
  open_.pop_back();
  for (const auto& [key, node] : row) {
    const std::string name(key.str());
    if (name == "type" || name == "name" || name == "repeat" || inner.used[name]) continue;
    fail_at(node, scope, one_line(name),
            fmt::format("the block {} does not use ${}. Remove it.", type, one_line(name)));
  }
  return layer;
}

}  // namespace lockstep
