// Networks as files of layers: what they make, and which line an error names.
#include "net/description/network_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "net/description/layer_kinds.h"
#include "net/layers.h"
#include "src/base/crc32c.h"
#include "src/base/table.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

std::string text_of(const std::string& file) {
  return contents(std::filesystem::path(SOURCE_DIR) / file);
}

ModelEntry mine(const std::string& text) { return network_entry("mine", text, "mine.toml"); }

Layout layout_of(const ModelEntry& entry, Shape sample, int classes = 10) {
  const auto device = make_cpu_device(1);
  return Model(*device, entry, sample, classes, Type::f32, true).layout();
}

std::string refusal(const std::string& text, Shape sample = {1, 8, 8, 3}) {
  return error_of([&] { layout_of(mine(text), sample); });
}

/// A small network with `row` as its third line.
std::string with(const std::string& row, const std::string& more = "") {
  return "sample = [8, 8, 3]\nlayers = [\n" + row +
         ",\n{type = 'dense', features = '$classes'}]\n" + more;
}

/// Everything about the parameters that their names, shapes and initial values follow from.
std::string text_of(const Layout& layout) {
  std::string text;
  for (const Parameter& p : layout.parameters) {
    text += fmt::format("{} {} {} {:a} {} {:a} {} {} {:a} {:a}\n", p.name, p.shape.text(),
                        static_cast<int>(p.init.kind), p.init.scale, p.init.dirac, p.l2,
                        p.range.begin, p.layer, p.follow, p.rate);
  }
  return text;
}

// Recorded when the networks were still C++. A published network must not change by accident.
TEST(NetworkFile, TheModelsKeepTheirParameters) {
  const std::map<std::string, std::uint32_t> recorded = {
      {"airbench94", 0x1e01754b},
      {"convnext_tiny", 0x1b4972af},
      {"deep_mnist", 0x95a0faf6},
      {"keras", 0xd821e0c0},
      {"mobilenet_v3_large", 0x89e9dcbd},
      {"resnet18", 0x8ac1a5ae},
      {"resnet18_cifar", 0xdd9b3a81},
      {"resnet20", 0x1c0414ec},
      {"resnet34", 0x6518736b},
      {"resnet50", 0x0e59270d},
      {"resnet56", 0x1698b366},
      {"resnet_small", 0xa7b4ebb6},
      {"reuters", 0x6179a909},
      {"reuters_as_published", 0x6179a909},
      {"text_cnn", 0xdb9b9d55},
      {"tower", 0xd1cdaf12},
      {"tutorial", 0xa11b3c53},
      {"vit_b_16", 0x55802ba0},
  };
  for (const ModelEntry& entry : models()) {
    ASSERT_TRUE(recorded.contains(entry.name)) << entry.name << " is new: add its row";
    EXPECT_EQ(crc32c(text_of(layout_of(entry, entry.sample))), recorded.at(entry.name))
        << entry.name;
    if (!entry.any_image || entry.words) continue;
    const std::string grey = text_of(layout_of(entry, {1, 64, 64, 1}));
    EXPECT_NE(grey, text_of(layout_of(entry, entry.sample))) << entry.name;
  }
  EXPECT_EQ(models().size(), recorded.size());
}

TEST(NetworkFile, AFileIsItsModel) {
  for (const ModelEntry& built_in : models()) {
    const std::string file = fmt::format("apps/networks/{}.toml", built_in.name);
    const ModelEntry own = network_entry(built_in.name, text_of(file), file);
    EXPECT_EQ(text_of(layout_of(own, own.sample)), text_of(layout_of(built_in, built_in.sample)));
    EXPECT_EQ(own.recipe, built_in.recipe) << file;
    EXPECT_EQ(own.about, built_in.about) << file;
  }
}

TEST(NetworkFile, HasOptionsAndLimits) {
  const std::string layers = "layers = [{type = 'dense', features = '$classes'}]\n";
  const ModelEntry entry = mine("sample = [8, 8, 3]\nsmallest = 4\n" + layers +
                                "[recipe]\nlr = 0.25\nepochs = 3\nnesterov = true\n"
                                "optimizer = 'adam'\ngroup = ['a', 'b, c']\n");
  EXPECT_EQ(entry.recipe, (Recipe{{"epochs", "3"},
                                  {"group", "a\nb, c"},
                                  {"lr", "0.25"},
                                  {"nesterov", "true"},
                                  {"optimizer", "adam"}}));
  EXPECT_TRUE(entry.fits({1, 4, 9, 1}));
  EXPECT_FALSE(entry.fits({1, 3, 9, 1}));
  EXPECT_FALSE(mine("sample = [8, 8, 3]\nother_images = false\n" + layers).fits({1, 9, 9, 3}));
  for (const char* line : {"other_images = 1", "smallest = 0", "smallest = 2.5", "whitens = true",
                           "recipe = 3", "recipe = {lr = [[1]]}", "recipe = {lr = 2020-01-01}"}) {
    const std::string key(line, std::string_view(line).find(' '));
    EXPECT_TRUE(mentions(refusal(fmt::format("sample = [8, 8, 3]\n{}\n{}", line, layers)),
                         {"mine.toml:2", key == "recipe" && line[9] == '{' ? "lr" : key}))
        << line;
  }
}

TEST(NetworkFile, BlocksVariablesAndRepeatedRowsMakeLayers) {
  const ModelEntry entry = mine(R"(sample = [8, 8, 3]
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
])");
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

TEST(NetworkFile, AnInnerRepetitionKeepsTheOuterNumber) {
  const ModelEntry entry = mine(R"(sample = [8, 8, 3]
layers = [
  {name = "outer$i", type = "chain", repeat = [4, 5], layers = [
    {name = "inner$i", type = "relu", repeat = 2},
    {type = "dense", features = "$i"},
  ]},
  {type = "dense", features = "$classes"},
])");
  std::vector<std::string> shapes;
  for (const Parameter& p : layout_of(entry, {1, 8, 8, 3}, 2).parameters)
    if (p.shape.rank() == 2) shapes.push_back(p.shape.text());
  EXPECT_EQ(shapes, (std::vector<std::string>{"2x5", "5x4", "4x192"}));
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
      {"{type = 'convolutoin', filters = 3}", 3, {"type", "did you mean convolution?", "--list"}},
      {"{type = 'relu', slope = 1}", 3, {"slope", "relu"}},
      {"{type = 'convolution', fliters = 3, kernel = 3}", 3, {"filters", "fliters"}},
      {"{type = 'dropout', rate = 0.5, rat = 1}", 3, {"rat", "did you mean rate?"}},
      {"{type = 'convolution', filters = 2.5, kernel = 3}", 3, {"filters", "2.5"}},
      {"{type = 'convolution', filters = 1e300, kernel = 3}", 3, {"filters", "1e+300"}},
      {"{type = 'convolution', filters = 99999999, kernel = 3}", 3, {"filters", "1048576"}},
      {"{type = 'convolution', filters = 4, kernel = 2}", 3, {"kernel", "valid"}},
      {"{type = 'dropout', rate = 1.5}", 3, {"rate", "1.5"}},
      {"{type = 'dropout', rate = nan}", 3, {"rate"}},
      {"{type = 'dense', features = true}", 3, {"features", "true"}},
      {"{type = 'dense', features = 3, relu = 1}", 3, {"relu", "true"}},
      {"{type = 'dense', features = '$widht'}", 3, {"$widht", "$classes"}},
      {"{type = 'dense', features = 3, init = 'normal'}", 3, {"init", "scale"}},
      {"{type = 'dense', features = 3, init = 'xavier'}", 3, {"init", "xavier", "glorot"}},
      {"{filters = 3}", 3, {"type"}},
      {"3", 3, {"layers", "table"}},
      {"{type = 'relu', name = 'a/b'}", 3, {"name", "a/b"}},
      {"{type = 'relu', name = 'a'},\n{type = 'relu', name = 'a'}", 4, {"name", "mine.toml:3"}},
      {"{type = 'chain', name = 'a', layers = [{type = 'dense', name = 'b', features = "
       "4}]},\n"
       "{type = 'dense', name = 'a.b', features = 4}",
       4,
       {"name", "a.b", "mine.toml:3"}},
      {"{type = 'dense', name = 'a.b.c', features = 4},\n{type = 'chain', name = 'a.b', "
       "layers = [{type = 'dense', name = 'c', features = 4}]}",
       4,
       {"name", "a.b.c", "mine.toml:3"}},
      {"{type = 'relu', repeat = 0}", 3, {"repeat"}},
      {"{type = 'relu', repeat = 2000}", 3, {"repeat", "1000"}},
      {"{type = 'residual'}", 3, {"branch", "missing"}},
      {"{type = 'residual', branch = []}", 3, {"branch", "no layers"}},
      {"{type = 'embedding', features = 3}", 3, {"type", "text"}},
      {"{type = 'a'}",
       8,
       {"type", "contains itself"},
       "[block.a]\ntype = 'chain'\nlayers = [{type = 'b'}]\n[block.b]\ntype = 'a'\n"},
      {"{type = 'a', width = 3}", 3, {"width", "$width"}, "[block.a]\ntype = 'relu'\n"},
      {"{type = 'a'}",
       8,
       {"(used in line 3)", "features", "$width"},
       "[block.a]\ntype = 'dense'\n\nfeatures = '$width'\n"},
      {"{type = 'relu'}", 5, {"dense", "layer"}, "[block.dense]\ntype = 'relu'\n"},
      {"{type = 'relu'}", 5, {"layer", "did you mean layers?"}, "layer = 3\n"},
      {"{type = 'relu'", 3, {"TOML"}},
      {"{type = 'relu'},\n}", 4, {"TOML"}},
      {"{type = 'max_pool', kernel = 2},\n{type = 'attention', heads = 5}",
       4,
       {"attention", "heads", "1x4x4x3"}},
      {"{type = 'convolution', filters = 4, kernel = 9, padding = 'valid'}",
       3,
       {"window", "1x8x8x3"}},
      {"{type = 'convolution', filters = 4, kernel = 9, stride = 9, padding = 'valid'}",
       3,
       {"window", "1x8x8x3"}},
      {"{type = 'residual', branch = [{type = 'convolution', filters = 4, kernel = 3}]}",
       3,
       {"branch", "1x8x8x4"}},
      {"{type = 'dense', features = 1000000, repeat = 3}", 3, {"too large"}}};
  for (const Fault& fault : faults) {
    SCOPED_TRACE(fault.row);
    const std::string error = refusal(with(fault.row, fault.more));
    EXPECT_TRUE(error.starts_with("mine.toml:" + std::to_string(fault.line))) << error;
    EXPECT_TRUE(mentions(error, fault.words));
  }
  const std::string sample = "sample = [8, 8, 3]\n";
  EXPECT_TRUE(mentions(refusal(sample), {"mine.toml:", "layers"}));
  EXPECT_TRUE(mentions(refusal("sample = [8, 8]\nlayers = 1\n"), {"mine.toml:1", "sample"}));
  const std::string large =
      "sample = [16384, 16384, 3]\nlayers = [\n"
      "{type = 'convolution', filters = 1000, kernel = 3}]";
  EXPECT_TRUE(mentions(refusal(large, {1, 16384, 16384, 3}), {"mine.toml:3", "too large"}));
  const std::string flat = "layers = [\n{type = 'flatten'}]";
  EXPECT_TRUE(mentions(refusal("sample = [300]\n" + flat, {1, 300}), {"mine.toml:3", "embedding"}));
  EXPECT_TRUE(mentions(refusal(sample + flat), {"mine.toml:3", "1x192", "$classes"}));
}

TEST(NetworkFile, ReadsTextsOnly) {
  const TemporaryDirectory folder;
  const auto write = [&](const std::string& text) {
    const auto file = folder.path() / "net.toml";
    put(file, text);
    return file;
  };
  EXPECT_EQ(read_network_file(write("a\t= 1\r\n")), "a = 1\n");
  for (const std::string& text : {std::string(), std::string(" \n\n"), std::string(40'000, '#'),
                                  std::string("a\0b", 3), std::string("# \x1b[31m")}) {
    expect_error({"net.toml"}, [&] { read_network_file(write(text)); });
  }
  for (const auto& file : {folder.path(), folder.path() / "none.toml"})
    expect_error({file.string()}, [&] { read_network_file(file); });
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

/// Blocks that contain the next one, `count` deep, each with `row`.
std::string nested_blocks(int count, const std::string& row) {
  std::string text = with("{type = 'b0', x = 'aa'}");
  for (int i = 0; i < count; ++i)
    text += fmt::format("[block.b{}]\ntype = '{}'\n{}\n", i,
                        i + 1 < count ? fmt::format("b{}", i + 1) : "relu", row);
  return text;
}

TEST(NetworkFile, ATextThatVariablesDoubleHasALimit) {
  EXPECT_TRUE(mentions(refusal(nested_blocks(30, "x = '$x$x'")), {"mine.toml:", "x", "1024"}));
  std::string doubled = "[variables]\na0 = '0123456789'\n";
  for (int i = 0; i < 60; ++i) doubled += fmt::format("a{} = '$a{}$a{}'\n", i + 1, i, i);
  EXPECT_NE(refusal(doubled + with("{type = 'relu', name = '$a60'}")), "");
}

TEST(NetworkFile, BlocksAndLayersWithinOthersHaveALimit) {
  EXPECT_EQ(refusal(nested_blocks(20, "")),
            "mine.toml:3: x: the block b0 does not use $x. Remove it.");
  EXPECT_TRUE(mentions(refusal(nested_blocks(900, "")), {"mine.toml:", "32"}));
  for (const char* name : {"", "a"}) {  // without names the paths are equally long
    std::string chains = "{type = 'relu'}";
    for (int i = 0; i < 100; ++i)
      chains = fmt::format("{{type = 'chain', name = '{}', layers = [{}]}}", i == 99 ? "a" : name,
                           chains);
    EXPECT_TRUE(mentions(refusal(with(chains)), {"mine.toml:", "32"})) << name;
  }
}

TEST(NetworkFile, ATextOfACheckpointHasTheLimitOfAFile) {
  EXPECT_NE(refusal(with("{type = 'relu'}") + std::string(40'000, '#')), "");
  mine(with("{type = 'relu'}") + std::string(4'000, '#'));
}

TEST(NetworkFile, OtherLettersStandOnlyInTextsAndComments) {
  const std::string good =
      "\xef\xbb\xbf# \xca\x82\nabout = 'na\xc3\xafve \xca\x82'\n" + with("{type = 'relu'}");
  EXPECT_EQ(mine(good).about, "na\xc3\xafve \xca\x82");
  for (const char* row : {"{type = 'relu', a = 1\xca\x82}", "{type = 'relu', \xca\x82 = 1}",
                          "{type = 'relu'}\xe2\x80\x83", "{type = 'relu', a = [1\xd7\x90]}"})
    EXPECT_TRUE(mentions(refusal(with(row)), {"mine.toml:3:"})) << row;
}

}  // namespace
}  // namespace lockstep
