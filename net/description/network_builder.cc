// One pass over the tables makes the layers. Blocks and lists recurse: list() calls add() for each
// row, and add() calls make() for each repetition. make() calls a kind of layer, whose LayerRow may
// call list() again. Shapes are not known here. So PlacedLayer keeps the line of each row for the
// errors of setup(), which follows later.
//
// The file may come from others, for example within a checkpoint. So texts, repetitions, layers and
// depth have limits, or a short file could take all memory or overflow the stack.
#include "net/description/network_builder.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "net/description/layer_kinds.h"
#include "src/base/table.h"
#include "src/base/text.h"

namespace lockstep {
namespace {

constexpr int kMostLayers = 10'000;
constexpr std::int64_t kMostRepeats = 1'000;
constexpr int kMostDepth = 32;                 // layers and blocks within others
constexpr std::size_t kLongestText = 1 << 10;  // bytes, with its variables replaced

bool is_letter(char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// The end of the name that begins at `begin`.
std::size_t end_of_name(const std::string& text, std::size_t begin) {
  while (begin < text.size() &&
         (is_letter(text[begin]) || (text[begin] >= '0' && text[begin] <= '9')))
    ++begin;
  return begin;
}

/// An error that names a line already. The layers around that line pass it on, so that the
/// innermost line is named.
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

std::string text_of(const NetworkValue& value) {
  return std::visit([](const auto& held) { return fmt::format("{}", held); }, value);
}

std::string hint_at(std::string_view name, const std::vector<std::string_view>& known) {
  const std::string near = nearest(name, known);
  return near.empty() ? "" : fmt::format(" (did you mean {}?)", one_line(near));
}

NetworkValue NetworkScope::value_of(const toml::node& node, const std::string& key) {
  if (const auto whole = node.value_exact<std::int64_t>()) return *whole;
  if (const auto number = node.value_exact<double>()) return *number;
  if (const auto flag = node.value_exact<bool>()) return *flag;
  const auto text = node.value_exact<std::string>();
  if (!text) {
    fail_at(node, key,
            "this is a date, a time, a list or a table. Write a number, a text, true or false.");
  }
  std::string result;
  for (std::size_t at = 0; at < text->size();) {
    if ((*text)[at] != '$') {
      result += (*text)[at++];
      continue;
    }
    const std::size_t end = end_of_name(*text, at + 1);
    const std::string name = text->substr(at + 1, end - at - 1);
    const auto found = values.find(name);
    if (found == values.end()) {
      fail_at(node, key,
              fmt::format("${} has no value here. The variables are ${}.", one_line(name),
                          fmt::join(std::views::keys(values), ", $")));
    }
    used[name] = true;
    // A text of one variable alone has the type of its value: "$classes" is a number.
    if (at == 0 && end == text->size()) return found->second;
    result += text_of(found->second);
    if (result.size() > kLongestText) {
      fail_at(node, key,
              fmt::format("this text has more than {} bytes with its variables. Use a shorter one.",
                          kLongestText));
    }
    at = end;
  }
  return result;
}

NamedLayers NetworkBuilder::build() {
  // Variables may name only `classes` and not each other, because the keys of a TOML table have no
  // order.
  NetworkScope scope = constants_;
  if (const toml::table* variables = tables_["variables"].as_table()) {
    for (const auto& [key, node] : *variables) {
      const std::string name(key.str());
      constants_.values[name] = scope.value_of(node, one_line(name));
    }
  }
  scope = constants_;
  const toml::node* layers = tables_.get("layers");
  if (!layers) scope.fail_at(tables_, "layers", "the network has none. Add layers = [ ... ].");
  return list(*layers, "layers", scope, "");
}

NamedLayers NetworkBuilder::list(const toml::node& node, const std::string& key,
                                 NetworkScope& scope, const std::string& path) {
  const toml::array* rows = node.as_array();
  const std::string example = fmt::format("{} = [ {{type = \"relu\"}}, ... ].", key);
  if (!rows || rows->empty()) {
    scope.fail_at(node, key,
                  (rows ? "the list has no layers. Write " : "this is no list. Write ") + example);
  }
  NamedLayers layers;
  for (std::size_t i = 0; i < rows->size(); ++i) {
    const toml::table* row = (*rows)[i].as_table();
    if (!row) scope.fail_at((*rows)[i], key, "a layer is a table. Write " + example);
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
      const NetworkValue value = scope.value_of(node, "repeat");
      const auto* whole = std::get_if<std::int64_t>(&value);
      if (!whole || *whole < 0 || *whole > kMostRepeats) {
        scope.fail_at(
            node, "repeat",
            fmt::format("it needs whole numbers from 0 to {}. Write repeat = 3, or [1, 3].",
                        kMostRepeats));
      }
      return *whole;
    };
    if (range && range->size() != 2)
      scope.fail_at(*repeat, "repeat", "a range has two ends. Write [1, 3].");
    begin = range ? number((*range)[0]) : 0;
    end = range ? number((*range)[1]) + 1 : number(*repeat);
    if (end <= begin)
      scope.fail_at(*repeat, "repeat", "it repeats nothing. Write a larger number.");
  }
  const auto outer = scope.values;  // a row around this one, or a variable, may also be called i
  for (std::int64_t i = begin; i < end; ++i) {
    if (++made_ > kMostLayers) {
      scope.fail_at(row, "layers",
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
  if (repeat) scope.values = outer;
}

std::string NetworkBuilder::type_of(const toml::table& row, NetworkScope& scope) {
  const toml::node* node = row.get("type");
  if (!node) scope.fail_at(row, "type", "it is missing. Add type = and the name of a layer.");
  const NetworkValue value = scope.value_of(*node, "type");
  const auto* type = std::get_if<std::string>(&value);
  if (!type) scope.fail_at(*node, "type", "this is no text. Write the name of a layer.");
  return *type;
}

std::string NetworkBuilder::name_of(const toml::table& row, NetworkScope& scope,
                                    const std::string& path, std::string& name) {
  const std::string type = type_of(row, scope);
  LayerRow reader(*this, row, scope, type, path);
  name = reader.name("name", type);
  const auto full = [&] { return path + (path.empty() || name.empty() ? "" : "/") + name; };
  // A row without a name gets its type and a number. A name that the user chose is never changed.
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
  std::ranges::replace(name, '/', '.');
  const auto [other, is_new] = taken_.emplace(name, scope.place(row));
  if (!is_new) {
    scope.fail_at(
        row, "name",
        fmt::format("the layer {} is also in {}. Use another name{}.", name, other->second,
                    row.get("repeat") ? ", such as name = \"dense$i\"" : ""));
  }
}

std::unique_ptr<Layer> NetworkBuilder::make(const toml::table& row, NetworkScope& scope,
                                            const std::string& path, Position position) {
  const std::string type = type_of(row, scope);
  struct Deeper {
    int& depth;
    ~Deeper() { --depth; }
  } const deeper{++depth_};
  if (depth_ > kMostDepth) {
    scope.fail_at(
        row, "type",
        fmt::format("more than {} layers and blocks contain each other. Use fewer.", kMostDepth));
  }
  if (const toml::table* block = tables_["block"][type].as_table())
    return make_block(row, *block, type, scope, path, position);
  const LayerKind* kind = find_or_null(layer_kinds(), type);
  if (kind == nullptr) {
    std::vector<std::string_view> known;
    for (const LayerKind& entry : layer_kinds()) known.push_back(entry.name);
    if (const toml::table* blocks = tables_["block"].as_table())
      for (const auto& [name, block] : *blocks) known.push_back(name.str());
    scope.fail_at(*row.get("type"), "type",
                  fmt::format("there is no layer \"{}\"{}. --list shows all.", one_line(type),
                              hint_at(type, known)));
  }
  // Other layers compute with the words' numbers, and an embedding with numbers that are no words.
  const bool needed = network_.words && position.first;
  if ((type == "embedding") != needed) {
    scope.fail_at(row, "type",
                  needed ? "texts need an embedding first. Begin with type = \"embedding\"."
                         : "an embedding is the first layer of a network for texts. Remove it.");
  }
  LayerRow reader(*this, row, scope, type, path);
  std::unique_ptr<Layer> layer = kind->make(reader);
  reader.finish(position.of_block);
  if (!reader.has_layers()) take(path, row, scope);
  if (network_.built_in) return layer;
  return std::make_unique<PlacedLayer>(std::move(layer), scope.place(row),
                                       position.last ? classes_ : 0);
}

NetworkScope NetworkBuilder::scope_of_block(const toml::table& row, const toml::table& block,
                                            NetworkScope& scope) {
  // As a function, a block sees the variables of the file, its defaults and the keys of its row. It
  // does not see those of the block that uses it, so that it means the same everywhere.
  NetworkScope inner = constants_;
  inner.from = fmt::format(" (used in line {})", row.source().begin.line);
  const auto set = [&](const toml::table& table, NetworkScope& named) {
    for (const auto& [key, node] : table) {
      const std::string name(key.str());
      if (name != "type" && name != "name" && name != "repeat")
        inner.values[name] = named.value_of(node, one_line(name));
    }
  };
  if (const toml::node* defaults = block.get("defaults")) {
    if (!defaults->is_table())
      scope.fail_at(*defaults, "defaults", "this is no table. Write defaults = {stride = 1}.");
    NetworkScope constants = constants_;
    set(*defaults->as_table(), constants);
  }
  set(row, scope);
  return inner;
}

std::unique_ptr<Layer> NetworkBuilder::make_block(const toml::table& row, const toml::table& block,
                                                  const std::string& type, NetworkScope& scope,
                                                  const std::string& path, Position position) {
  if (std::ranges::count(open_, type) > 0) {
    scope.fail_at(row, "type",
                  fmt::format("the block {} contains itself. Use another layer.", type));
  }
  NetworkScope inner = scope_of_block(row, block, scope);
  open_.push_back(type);
  position.of_block = true;
  auto layer = make(block, inner, path, position);
  open_.pop_back();
  // A key that the block ignores is an error. A misspelled one would otherwise leave the default in
  // place.
  for (const auto& [key, node] : row) {
    const std::string name(key.str());
    if (name == "type" || name == "name" || name == "repeat" || inner.used[name]) continue;
    scope.fail_at(node, one_line(name),
                  fmt::format("the block {} does not use ${}. Remove it.", type, one_line(name)));
  }
  return layer;
}

}  // namespace lockstep
