// Networks as files of layers: what they make, and which line an error names.
#include "net/description/network_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>

#include "net/description/layer_kinds.h"
#include "net/layers.h"
#include "src/base/table.h"
#include "tests/support/error_of.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

std::string text_of(const std::string& file) {
  std::ifstream in(std::filesystem::path(SOURCE_DIR) / file);
  return {std::istreambuf_iterator<char>(in), {}};
}

Layout layout_of(const ModelEntry& entry, Shape sample, int classes = 10) {
  const auto device = make_cpu_device(1);
  return Model(*device, entry, sample, classes, 1, Type::f32, true).layout();
}

std::string refusal(const std::string& text, Shape sample = {1, 8, 8, 3}) {
  return error_of([&] { layout_of(network_entry("mine", text, "mine.toml"), sample); });
}

/// A small network with `row` as its third line.
std::string with(const std::string& row, const std::string& more = "") {
  return "sample = [8, 8, 3]\nlayers = [\n" + row +
         ",\n{type = \"dense\", features = \"$classes\"}]\n" + more;
}

TEST(NetworkFile, TheExamplesAreTheBuiltInNetworks) {
  for (const auto& [name, sample] : {std::pair("resnet18", Shape{1, 32, 32, 3}),
                                     {"vit_b_16", {1, 32, 32, 3}},
                                     {"reuters", {1, 300}}}) {
    const Layout built_in = layout_of(find(models(), name), sample);
    const std::string file = fmt::format("apps/networks/{}.toml", name);
    const Layout own = layout_of(network_entry(name, text_of(file), file), sample);
    ASSERT_EQ(own.parameters.size(), built_in.parameters.size());
    for (std::size_t i = 0; i < own.parameters.size(); ++i) {
      const Parameter &is = own.parameters[i], &expected = built_in.parameters[i];
      EXPECT_EQ(is.name, expected.name);
      EXPECT_EQ(is.shape, expected.shape) << is.name;
      EXPECT_EQ(is.init.kind, expected.init.kind) << is.name;
      EXPECT_EQ(is.init.scale, expected.init.scale) << is.name;
      EXPECT_EQ(is.range.begin, expected.range.begin) << is.name;
    }
  }
}

TEST(NetworkFile, BlocksVariablesAndRepeatedRowsMakeLayers) {
  const ModelEntry entry = network_entry("mine",
                                         R"(sample = [8, 8, 3]
layers = [
  {type = "pair", last = 5},
  {name = "more$i", type = "pair", last = "$width", kernel = 1, repeat = [2, 3]},
  {type = "dense", features = "$classes", init = "normal", scale = 0.25, bias = 0.5, l2 = 0.125},
]
[variables]
width = 4
[block.pair]
defaults = {kernel = 3}
type = "chain"
layers = [
  {type = "convolution", filters = "$width", kernel = "$kernel", init = "he"},
  {type = "convolution", filters = "$last", kernel = 1, biases = false},
])",
                                         "mine.toml");
  std::vector<std::string> parameters;
  const Layout layout = layout_of(entry, {1, 8, 8, 3}, 2);
  for (const Parameter& p : layout.parameters) parameters.push_back(p.name + " " + p.shape.text());
  EXPECT_EQ(parameters,
            (std::vector<std::string>{
                "dense/weights 2x256", "dense/biases 2", "more3/convolution_2/weights 4x1x1x4",
                "more3/convolution/weights 4x1x1x4", "more3/convolution/biases 4",
                "more2/convolution_2/weights 4x1x1x4", "more2/convolution/weights 4x1x1x5",
                "more2/convolution/biases 4", "pair/convolution_2/weights 5x1x1x4",
                "pair/convolution/weights 4x3x3x3", "pair/convolution/biases 4"}));
  EXPECT_EQ(layout.parameters[0].init.scale, 0.25f);
  EXPECT_EQ(layout.parameters[0].l2, 0.125f);
  EXPECT_EQ(layout.parameters[1].init.scale, 0.5f);
  EXPECT_EQ(layout.parameters[9].init.scale, std::sqrt(2 / 27.0f));
}

/// The line of an error and words in it, for a row of a small network.
struct Fault {
  const char* row;
  int line;
  std::vector<std::string_view> words;
  const char* more = "";
};

TEST(NetworkFile, ErrorsNameTheLine) {
  const std::vector<Fault> faults{
      {"{type = \"convolutoin\", filters = 3}", 3, {"type", "did you mean convolution?", "--list"}},
      {"{type = \"relu\", slope = 1}", 3, {"slope", "relu"}},
      {"{type = \"convolution\", fliters = 3, kernel = 3}", 3, {"filters", "fliters"}},
      {"{type = \"dropout\", rate = 0.5, rat = 1}", 3, {"rat", "did you mean rate?"}},
      {"{type = \"convolution\", filters = 2.5, kernel = 3}", 3, {"filters", "2.5"}},
      {"{type = \"convolution\", filters = 1e300, kernel = 3}", 3, {"filters", "1e+300"}},
      {"{type = \"convolution\", filters = 99999999, kernel = 3}", 3, {"filters", "1048576"}},
      {"{type = \"convolution\", filters = 4, kernel = 2}", 3, {"kernel", "valid"}},
      {"{type = \"dropout\", rate = 1.5}", 3, {"rate", "1.5"}},
      {"{type = \"dropout\", rate = nan}", 3, {"rate"}},
      {"{type = \"dense\", features = true}", 3, {"features", "true"}},
      {"{type = \"dense\", features = 3, relu = 1}", 3, {"relu", "true"}},
      {"{type = \"dense\", features = \"$widht\"}", 3, {"$widht", "$classes"}},
      {"{type = \"dense\", features = 3, init = \"normal\"}", 3, {"init", "scale"}},
      {"{type = \"dense\", features = 3, init = \"xavier\"}", 3, {"init", "xavier", "glorot"}},
      {"{filters = 3}", 3, {"type"}},
      {"3", 3, {"layers", "table"}},
      {"{type = \"relu\", name = \"a/b\"}", 3, {"name", "a/b"}},
      {"{type = \"relu\", name = \"a\"},\n{type = \"relu\", name = \"a\"}",
       4,
       {"name", "mine.toml:3"}},
      {"{type = \"chain\", name = \"a\", layers = [{type = \"dense\", name = \"b\", features = "
       "4}]},\n"
       "{type = \"dense\", name = \"a.b\", features = 4}",
       4,
       {"name", "a.b", "mine.toml:3"}},
      {"{type = \"dense\", name = \"a.b.c\", features = 4},\n{type = \"chain\", name = \"a.b\", "
       "layers = [{type = \"dense\", name = \"c\", features = 4}]}",
       4,
       {"name", "a.b.c", "mine.toml:3"}},
      {"{type = \"relu\", repeat = 0}", 3, {"repeat"}},
      {"{type = \"relu\", repeat = 2000}", 3, {"repeat", "1000"}},
      {"{type = \"residual\"}", 3, {"branch", "missing"}},
      {"{type = \"residual\", branch = []}", 3, {"branch", "no layers"}},
      {"{type = \"embedding\", features = 3}", 3, {"type", "text"}},
      {"{type = \"a\"}",
       8,
       {"type", "contains itself"},
       "[block.a]\ntype = \"chain\"\nlayers = [{type = \"b\"}]\n[block.b]\ntype = \"a\"\n"},
      {"{type = \"a\", width = 3}", 3, {"width", "$width"}, "[block.a]\ntype = \"relu\"\n"},
      {"{type = \"a\"}",
       8,
       {"(used in line 3)", "features", "$width"},
       "[block.a]\ntype = \"dense\"\n\nfeatures = \"$width\"\n"},
      {"{type = \"relu\"}", 5, {"dense", "layer"}, "[block.dense]\ntype = \"relu\"\n"},
      {"{type = \"relu\"}", 5, {"layer", "did you mean layers?"}, "layer = 3\n"},
      {"{type = \"relu\"", 3, {"TOML"}},
      {"{type = \"relu\"},\n}", 4, {"TOML"}},
      {"{type = \"max_pool\", kernel = 2},\n{type = \"attention\", heads = 5}",
       4,
       {"attention", "heads", "1x4x4x3"}},
      {"{type = \"convolution\", filters = 4, kernel = 9, padding = \"valid\"}",
       3,
       {"window", "1x8x8x3"}},
      {"{type = \"convolution\", filters = 4, kernel = 9, stride = 9, padding = \"valid\"}",
       3,
       {"window", "1x8x8x3"}},
      {"{type = \"residual\", branch = [{type = \"convolution\", filters = 4, kernel = 3}]}",
       3,
       {"branch", "1x8x8x4"}},
      {"{type = \"dense\", features = 1000000, repeat = 3}", 3, {"too large"}}};
  for (const Fault& fault : faults) {
    SCOPED_TRACE(fault.row);
    const std::string error = refusal(with(fault.row, fault.more));
    EXPECT_TRUE(error.starts_with("mine.toml:" + std::to_string(fault.line))) << error;
    EXPECT_TRUE(mentions(error, fault.words));
  }
  EXPECT_TRUE(mentions(refusal("sample = [8, 8, 3]\n"), {"mine.toml:", "layers"}));
  EXPECT_TRUE(mentions(refusal("sample = [8, 8]\nlayers = 1\n"), {"mine.toml:1", "sample"}));
  EXPECT_TRUE(mentions(refusal("sample = [16384, 16384, 3]\nlayers = [\n"
                               "{type = \"convolution\", filters = 1000, kernel = 3}]",
                               {1, 16384, 16384, 3}),
                       {"mine.toml:3", "too large"}));
  EXPECT_TRUE(mentions(refusal("sample = [300]\nlayers = [\n{type = \"flatten\"}]", {1, 300}),
                       {"mine.toml:3", "embedding"}));
  EXPECT_TRUE(mentions(refusal("sample = [8, 8, 3]\nlayers = [\n{type = \"flatten\"}]"),
                       {"mine.toml:3", "1x192", "$classes"}));
}

TEST(NetworkFile, ReadsTextsOnly) {
  const TemporaryDirectory folder;
  const auto write = [&](const std::string& text) {
    const auto file = folder.path() / "net.toml";
    std::ofstream(file, std::ios::binary) << text;
    return file;
  };
  EXPECT_EQ(read_network_file(write("a\t= 1\r\n")), "a = 1\n");
  for (const std::string& text : {std::string(), std::string(" \n\n"), std::string(40'000, '#'),
                                  std::string("a\0b", 3), std::string("# \x1b[31m")}) {
    EXPECT_TRUE(mentions(error_of([&] { read_network_file(write(text)); }), {"net.toml"}));
  }
  for (const auto& file : {folder.path(), folder.path() / "none.toml"})
    EXPECT_TRUE(mentions(error_of([&] { read_network_file(file); }), {file.string()}));
}

/// Notes the keys that a kind reads, as docs/models.md lists them.
class Listing : public LayerRow {
 public:
  std::string text;

  std::int64_t whole(const std::string& key, const Bounds& range,
                     std::optional<std::int64_t> by_default) override {
    add(key, by_default ? fmt::format(" = {}", *by_default) : "");
    return by_default ? *by_default : static_cast<std::int64_t>(std::max(3.0, range.low));
  }
  float number(const std::string& key, const Bounds&, std::optional<float> by_default) override {
    add(key, by_default ? fmt::format(" = {}", *by_default) : "");
    return by_default.value_or(0.5f);
  }
  bool flag(const std::string& key, bool by_default) override {
    add(key, fmt::format(" = {}", by_default));
    return by_default;
  }
  std::string choice(const std::string& key, const std::vector<std::string_view>& names) override {
    add(key, fmt::format(" = \"{}\"", names.front()));
    return std::string(names.front());
  }
  std::string name(const std::string& key, const std::string& by_default) override {
    add(key, fmt::format(" = \"{}\"", by_default));
    return by_default;
  }
  NamedLayers layers(const std::string& key, const std::string&, bool required) override {
    add(key, required ? "" : " = []");
    NamedLayers layers;
    if (required) layers.emplace_back("relu", relu());
    return layers;
  }
  void fail_at(const std::string& key, const std::string& what) const override {
    throw Error(key + what);
  }

 private:
  void add(const std::string& key, const std::string& by_default) {
    text += fmt::format("{}`{}{}`", text.empty() ? "" : ", ", key, by_default);
  }
};

TEST(NetworkFile, EachLayerHasAKind) {
  const std::string header = text_of("net/layers.h"), begin = "std::unique_ptr<Layer> ";
  int layers = 0;
  for (std::size_t at = 0; (at = header.find(begin, at)) != header.npos; ++layers) {
    at += begin.size();
    EXPECT_NO_THROW(find(layer_kinds(), header.substr(at, header.find('(', at) - at)));
  }
  EXPECT_EQ(layers, std::ssize(layer_kinds()));
}

TEST(NetworkFile, TheExamplesOfTheDocumentationAreNetworks) {
  const std::string page = text_of("docs/models.md"), fence = "```toml\n";
  int examples = 0;
  for (std::size_t at = 0; (at = page.find(fence, at)) != page.npos; ++examples) {
    at += fence.size();
    layout_of(network_entry("mine", page.substr(at, page.find("```\n", at) - at), "models.md"),
              {1, 32, 32, 3});
  }
  EXPECT_EQ(examples, 2);
}

TEST(NetworkFile, TheDocumentationListsAllLayersAndKeys) {
  const std::string page = text_of("docs/models.md");
  for (const LayerKind& kind : layer_kinds()) {
    Listing listing;
    kind.make(listing);
    const std::string row = fmt::format("| `{}` | {} | {} |\n", kind.name, kind.about,
                                        listing.text.empty() ? "none" : listing.text);
    EXPECT_NE(page.find(row), page.npos) << row;
  }
}

}  // namespace
}  // namespace lockstep
