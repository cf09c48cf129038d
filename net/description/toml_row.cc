#include "net/description/toml_row.h"

#include <algorithm>
#include <cmath>

#include "src/base/check.h"
#include "src/base/table.h"
#include "src/base/text.h"

namespace lockstep {
namespace {

/// Whether `key` is one of every row in a list, or of every block.
bool is_general(const std::string& key, bool of_block) {
  return key == "type" || (of_block ? key == "defaults" : key == "name" || key == "repeat");
}

std::string shown(const NetworkValue& value) {
  if (const auto* text = std::get_if<std::string>(&value))
    return fmt::format("\"{}\"", one_line(*text));
  return std::visit([](const auto& held) { return fmt::format("{}", held); }, value);
}

bool inside(double value, const Bounds& range) {
  return std::isfinite(value) && value <= range.high &&
         (range.open ? value > range.low : value >= range.low);
}

}  // namespace

std::optional<NetworkValue> TomlRow::take(const std::string& key, bool required) {
  read_.insert(key);
  const toml::node* node = table_.get(key);
  if (!node && required) {
    std::vector<std::string_view> others;
    for (const auto& [other, value] : table_)
      if (!read_.contains(std::string(other.str()))) others.push_back(other.str());
    const std::string near = nearest(key, others);
    fail_at(key,
            fmt::format("{} needs it, and it is missing{}. Add {} = and its value.", type_,
                        near.empty() ? "" : fmt::format(" (is {} meant?)", one_line(near)), key));
  }
  if (!node) return {};
  return value_of(*node, scope_, builder_.file_, key);
}

std::int64_t TomlRow::whole(const std::string& key, const Bounds& range,
                            std::optional<std::int64_t> by_default) {
  const auto value = take(key, !by_default);
  if (!value) return *by_default;
  const auto* number = std::get_if<std::int64_t>(&*value);
  if (!number || !inside(static_cast<double>(*number), range)) {
    fail_at(key,
            fmt::format("{} is not a whole number {}. Write one.", shown(*value), range.text()));
  }
  return *number;
}

float TomlRow::number(const std::string& key, const Bounds& range,
                      std::optional<float> by_default) {
  const auto value = take(key, !by_default);
  if (!value) return *by_default;
  const auto* whole = std::get_if<std::int64_t>(&*value);
  const auto* number = std::get_if<double>(&*value);
  const double held = whole ? static_cast<double>(*whole) : number ? *number : NAN;
  if (!inside(held, range))
    fail_at(key, fmt::format("{} is not a number {}. Write one.", shown(*value), range.text()));
  return static_cast<float>(held);
}

bool TomlRow::flag(const std::string& key, bool by_default) {
  const auto value = take(key, /*required=*/false);
  if (!value) return by_default;
  const bool* flag = std::get_if<bool>(&*value);
  if (!flag)
    fail_at(key, fmt::format("{} is neither true nor false. Write one of them.", shown(*value)));
  return *flag;
}

std::string TomlRow::choice(const std::string& key, const std::vector<std::string_view>& names) {
  const auto value = take(key, /*required=*/false);
  if (!value) return std::string(names.front());
  const auto* text = std::get_if<std::string>(&*value);
  if (!text || std::find(names.begin(), names.end(), *text) == names.end()) {
    fail_at(key, fmt::format("{} is unknown. Use one of \"{}\".", shown(*value),
                             fmt::join(names, "\", \"")));
  }
  return *text;
}

std::string TomlRow::name(const std::string& key, const std::string& by_default) {
  const auto value = take(key, /*required=*/false);
  if (!value) return by_default;
  const auto* text = std::get_if<std::string>(&*value);
  constexpr const char* kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  if (!text || text->find_first_not_of(kLetters) != text->npos || text->size() > 100 ||
      (!text->empty() && text->find_first_not_of('.') == text->npos)) {
    fail_at(key, fmt::format("{} is no name. Use letters, digits, and the signs _ - and .",
                             shown(*value)));
  }
  return *text;
}

NamedLayers TomlRow::layers(const std::string& key, const std::string& prefix, bool required) {
  read_.insert(key);
  has_layers_ = true;
  const toml::node* node = table_.get(key);
  if (!node && required) take(key, true);
  if (!node) return {};
  const bool joins = !path_.empty() && !prefix.empty();
  return builder_.list(*node, key, scope_, path_ + (joins ? "/" : "") + prefix);
}

void TomlRow::fail_at(const std::string& key, const std::string& what) const {
  const toml::node* node = table_.get(key);
  builder_.fail_at(node ? *node : table_, scope_, key, what);
}

void TomlRow::finish(bool of_block) const {
  for (const auto& [key, node] : table_) {
    const std::string name(key.str());
    if (read_.contains(name) || is_general(name, of_block)) continue;
    const std::vector<std::string_view> known(read_.begin(), read_.end());
    const std::string near = nearest(name, known);
    fail_in_file(
        builder_.file_, key.source(), scope_.from, one_line(name),
        fmt::format("{} has no such key{}. {}", type_,
                    near.empty() ? "" : fmt::format(" (did you mean {}?)", near),
                    known.empty() ? "Remove it."
                                  : fmt::format("Its keys are {}.", fmt::join(known, ", "))));
  }
}

}  // namespace lockstep
