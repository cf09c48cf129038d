#include "net/description/network_file.h"

#include <algorithm>

#include "net/description/layer_kinds.h"
#include "net/description/network_builder.h"
#include "net/whitening.h"
#include "src/base/check.h"
#include "src/base/table.h"
#include "src/base/text.h"

namespace lockstep {
namespace {

/// HDF5 holds an attribute of up to 64 KiB in a checkpoint.
constexpr std::size_t kMostBytes = 32'768;
constexpr std::int64_t kLargestSample = 1 << 14;
constexpr int kAssumedClasses = 10;

constexpr const char* kAdvice = "Correct the line.";

/// The shape of `sample = [height, width, channels]` or, for texts, [words].
Shape sample_of(const NetworkFile& network) {
  NetworkScope scope;
  const toml::node* node = network.tables.get("sample");
  const auto fail_here = [&](const char* what) {
    fail_in_file(
        network.file, node ? node->source() : network.tables.source(), "", "sample",
        fmt::format("{}. Write sample = [height, width, channels], or [words] for texts.", what));
  };
  if (!node) fail_here("it is missing");
  const toml::array* extents = node->as_array();
  if (!extents || (extents->size() != 1 && extents->size() != 3))
    fail_here("this is no list of three numbers, or of one");
  std::vector<std::int64_t> numbers;
  for (const toml::node& extent : *extents) {
    const auto number = extent.value_exact<std::int64_t>();
    if (!number || *number < 1 || *number > kLargestSample)
      fail_here("its numbers are whole, and from 1 to 16384");
    numbers.push_back(*number);
  }
  if (numbers.size() == 1) return {1, numbers[0]};
  return {1, numbers[0], numbers[1], numbers[2]};
}

/// Checks the keys at the top, and the form of those that no layer reads.
void check_top(const NetworkFile& network) {
  const std::vector<std::string_view> known{"about",    "sample",  "other_images",
                                            "smallest", "whitens", "layers",
                                            "recipe",   "block",   "variables"};
  for (const auto& [key, node] : network.tables) {
    const std::string name(key.str());
    const auto fail_here = [&](const std::string& what) {
      fail_in_file(network.file, key.source(), "", one_line(name), what);
    };
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      const std::string near = nearest(name, known);
      fail_here(fmt::format("there is no such key{}. Use {}.",
                            near.empty() ? "" : fmt::format(" (did you mean {}?)", near),
                            fmt::join(known, ", ")));
    }
    if ((name == "about" || name == "whitens") && !node.is_string())
      fail_here(fmt::format("this is no text. Write {} = \"...\".", name));
    if (name == "other_images" && !node.is_boolean())
      fail_here("this is neither true nor false. Write one of them.");
    if (name == "smallest" && node.value_exact<std::int64_t>().value_or(0) < 1)
      fail_here("this is no whole number above 0. Write the least height and width.");
    if ((name == "block" || name == "variables" || name == "recipe") && !node.is_table())
      fail_here(
          fmt::format("this is no table. Write [{}].", name == "block" ? "block.NAME" : name));
  }
  const toml::table* blocks = network.tables["block"].as_table();
  if (!blocks) return;
  for (const auto& [key, node] : *blocks) {
    const std::string name(key.str());
    if (find_or_null(layer_kinds(), name))
      fail_in_file(network.file, key.source(), "", name, "a layer has this name. Use another one.");
    if (!node.is_table())
      fail_in_file(network.file, key.source(), "", one_line(name),
                   "this is no table. Write [block.NAME].");
  }
}

/// The values of [recipe] as texts.
Recipe recipe_of(const NetworkFile& network) {
  Recipe recipe;
  const toml::table* table = network.tables["recipe"].as_table();
  if (!table) return recipe;
  NetworkScope scope;
  for (const auto& [key, node] : *table) {
    const std::string name(key.str());
    const auto text_of = [&](const toml::node& value) {
      return std::visit([](const auto& held) { return fmt::format("{}", held); },
                        value_of(value, scope, network.file, one_line(name)));
    };
    std::vector<std::string> texts;
    if (const toml::array* list = node.as_array()) {
      for (const toml::node& value : *list) texts.push_back(text_of(value));
    } else {
      texts.push_back(text_of(node));
    }
    recipe.emplace_back(name, fmt::format("{}", fmt::join(texts, "\n")));
  }
  return recipe;
}

ModelEntry entry_of(const std::string& name, std::shared_ptr<NetworkFile> network) {
  check_top(*network);
  const toml::table& top = network->tables;
  const Shape sample = sample_of(*network);
  network->words = sample.rank() == 2;
  ModelEntry entry{
      .name = name,
      .about = top["about"].value_or(std::string("the network of ") + network->file),
      .sample = sample,
      .any_image = top["other_images"].value_or(true),
      .build = [network](Shape, int classes) { return NetworkBuilder(*network, classes).build(); },
      .recipe = recipe_of(*network),
      .words = network->words,
      .smallest = top["smallest"].value_or(std::int64_t{1})};
  if (const auto layer = top["whitens"].value<std::string>()) {
    entry.prepare = [layer = *layer](const Dataset& train, const Layout& layout, float* values) {
      whiten(train, layout, layer, values);
    };
  }
  return entry;
}

bool is_same_network(const std::string& before, const std::string& now) {
  try {
    return parse_toml(before, "", kAdvice) == parse_toml(now, "", kAdvice);
  } catch (const Error&) {  // of a damaged checkpoint
    return before == now;
  }
}

/// A line of TOML, and its characters without comment and space.
struct TomlRow {
  int number;
  std::string text, significant;
};

/// The lines that are no mere comments or spaces.
std::vector<TomlRow> rows_of(const std::string& text) {
  std::vector<TomlRow> rows;
  int number = 0;
  for (const std::string& line : lines_of(text)) {
    TomlRow row{++number, line, ""};
    char quote = 0;
    for (const char c : line) {
      if (quote == 0 && c == '#') break;
      if (quote != 0 || c != ' ') row.significant += c;
      if (c == quote) {
        quote = 0;
      } else if (quote == 0 && (c == '"' || c == '\'')) {
        quote = c;
      }
    }
    if (!row.significant.empty()) rows.push_back(row);
  }
  return rows;
}

}  // namespace

std::string read_network_file(const std::filesystem::path& file) {
  const std::string name = file.string();
  std::string text = read_toml("--model", file, kMostBytes);
  std::erase(text, '\r');
  std::replace(text.begin(), text.end(), '\t', ' ');
  int number = 0;
  for (const std::string& line : lines_of(text)) {
    ++number;
    if (line != printable(line))
      fail_usage("{}:{}: the line has control characters. Remove them.", name, number);
  }
  if (text.find_first_not_of(" \n") == text.npos)
    fail_usage("--model {} is empty. Write the layers of a network.", name);
  return text;
}

ModelEntry network_entry(const std::string& name, const std::string& text,
                         const std::string& file) {
  if (text.size() > kMostBytes)  // of a checkpoint
    fail_usage("the network of {} has more than {} bytes. Use another file.", file, kMostBytes);
  ModelEntry entry =
      entry_of(name, std::make_shared<NetworkFile>(file, parse_toml(text, file, kAdvice)));
  entry.build(entry.sample, kAssumedClasses);
  entry.own = true;
  return entry;
}

ModelEntry built_in_network(const std::string& name, const std::string& text) {
  const std::string file = name + ".toml";
  auto network = std::make_shared<NetworkFile>(file, parse_toml(text, file, kAdvice));
  network->built_in = true;
  return entry_of(name, network);
}

ModelEntry model_called(const std::string& name, const std::string& text, const std::string& file) {
  return text.empty() ? find(models(), name) : network_entry(name, text, file);
}

std::string network_difference(const std::string& before, const std::string& now) {
  if (is_same_network(before, now)) return "";
  const auto then = rows_of(before), is = rows_of(now);
  const auto [was, row] = std::mismatch(
      then.begin(), then.end(), is.begin(), is.end(),
      [](const TomlRow& a, const TomlRow& b) { return a.significant == b.significant; });
  if (row == is.end() && was == then.end()) return "";
  const int number = row != is.end() ? row->number : was->number;
  return fmt::format("line {} is `{}`, not `{}`", number, row != is.end() ? row->text : "",
                     was != then.end() ? was->text : "");
}

}  // namespace lockstep
