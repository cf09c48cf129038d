// A file is checked in three steps. check_top() looks at the keys at the top. Then the layers are
// made once, which reads all rows (network_builder.cc). Shapes are checked last, when a Model calls
// setup() for the samples of a data set.
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
Shape sample_of(const toml::table& top, const NetworkScope& scope) {
  const toml::node* node = top.get("sample");
  const auto fail_here = [&](const char* what) {
    scope.fail_at(
        node ? *node : top, "sample",
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

/// A key at the top of a file.
struct TopKey {
  std::string_view name;
  toml::node_type type = toml::node_type::none;  ///< none: another function checks it
  const char* error = "";                        ///< of another type
};

constexpr TopKey kTopKeys[] = {
    {"about", toml::node_type::string, "this is no text. Write about = \"...\"."},
    {"sample"},
    {"other_images", toml::node_type::boolean,
     "this is neither true nor false. Write one of them."},
    {"smallest", toml::node_type::integer,
     "this is no whole number above 0. Write the least height and width."},
    {"whitens", toml::node_type::string, "this is no text. Write whitens = \"...\"."},
    {"layers"},
    {"recipe", toml::node_type::table, "this is no table. Write [recipe]."},
    {"block", toml::node_type::table, "this is no table. Write [block.NAME]."},
    {"variables", toml::node_type::table, "this is no table. Write [variables]."}};

/// Checks the keys at the top, and the form of those that no layer reads.
void check_top(const toml::table& top, const NetworkScope& scope) {
  for (const auto& [key, node] : top) {
    const auto* const known = std::ranges::find(kTopKeys, key.str(), &TopKey::name);
    if (known == std::end(kTopKeys)) {
      std::vector<std::string_view> names;
      for (const TopKey& one : kTopKeys) names.push_back(one.name);
      scope.fail_at(key, one_line(std::string(key.str())),
                    fmt::format("there is no such key{}. Use {}.", hint_at(key.str(), names),
                                fmt::join(names, ", ")));
    }
    const bool other = known->type != toml::node_type::none && known->type != node.type();
    if (other || (known->name == "smallest" && node.value_or(std::int64_t{1}) < 1))
      scope.fail_at(key, std::string(known->name), known->error);
  }
  const toml::table* blocks = top["block"].as_table();
  if (!blocks) return;
  for (const auto& [key, node] : *blocks) {
    const std::string name(key.str());
    if (find_or_null(layer_kinds(), name))
      scope.fail_at(key, name, "a layer has this name. Use another one.");
    if (!node.is_table())
      scope.fail_at(key, one_line(name), "this is no table. Write [block.NAME].");
  }
}

/// The values of [recipe] as texts.
Recipe recipe_of(const toml::table& top, NetworkScope scope) {
  Recipe recipe;
  const toml::table* table = top["recipe"].as_table();
  if (!table) return recipe;
  for (const auto& [key, node] : *table) {
    const std::string name(key.str());
    std::vector<std::string> texts;
    const auto add = [&](const toml::node& value) {
      texts.push_back(text_of(scope.value_of(value, one_line(name))));
    };
    if (const toml::array* list = node.as_array()) {
      for (const toml::node& value : *list) add(value);
    } else {
      add(node);
    }
    recipe.emplace_back(name, fmt::format("{}", fmt::join(texts, "\n")));
  }
  return recipe;
}

ModelEntry entry_of(const std::string& name, NetworkFile file) {
  const NetworkScope scope{file.file};
  check_top(file.tables, scope);
  const Shape sample = sample_of(file.tables, scope);
  file.words = sample.rank() == 2;
  const auto network = std::make_shared<const NetworkFile>(std::move(file));
  const toml::table& top = network->tables;
  ModelEntry entry{
      .name = name,
      .about = top["about"].value_or("the network of " + network->file),
      .sample = sample,
      .any_image = top["other_images"].value_or(true),
      .build = [network](Shape, int classes) { return NetworkBuilder(*network, classes).build(); },
      .recipe = recipe_of(top, scope),
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
  std::ranges::replace(text, '\t', ' ');
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
  ModelEntry entry = entry_of(name, {.file = file, .tables = parse_toml(text, file, kAdvice)});
  // Makes the layers once, only for the errors that need no shapes. A Model makes its own later.
  entry.build(entry.sample, kAssumedClasses);
  entry.own = true;
  return entry;
}

ModelEntry built_in_network(const std::string& name, const std::string& text) {
  const std::string file = name + ".toml";
  return entry_of(name,
                  {.file = file, .tables = parse_toml(text, file, kAdvice), .built_in = true});
}

ModelEntry model_called(const std::string& name, const std::string& text, const std::string& file) {
  return text.empty() ? find(models(), name) : network_entry(name, text, file);
}

std::string network_difference(const std::string& before, const std::string& now) {
  if (is_same_network(before, now)) return "";
  // The networks differ as parsed tables. The lines only serve to show the first difference.
  const auto then = rows_of(before), is = rows_of(now);
  const auto [was, row] =
      std::ranges::mismatch(then, is, {}, &TomlRow::significant, &TomlRow::significant);
  if (row == is.end() && was == then.end()) return "";
  const int number = row != is.end() ? row->number : was->number;
  return fmt::format("line {} is `{}`, not `{}`", number, row != is.end() ? row->text : "",
                     was != then.end() ? was->text : "");
}

}  // namespace lockstep
