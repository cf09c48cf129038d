// A row learns its keys by being read: each call notes its key, and finish() refuses those that no
// call has noted. So a layer declares its keys only once, in the function that makes it.
#include "net/description/layer_row.h"

#include <algorithm>
#include <cmath>

#include "src/base/check.h"
#include "src/base/text.h"

namespace lockstep {
namespace {

/// Whether `key` is one of every row in a list, or of every block.
bool is_general(const std::string& key, bool of_block) {
  return key == "type" || (of_block ? key == "defaults" : key == "name" || key == "repeat");
}

std::string shown(const NetworkValue& value) {
  const std::string text = text_of(value);
  return std::holds_alternative<std::string>(value) ? fmt::format("\"{}\"", one_line(text)) : text;
}

bool inside(double value, const Bounds& range) {
  return std::isfinite(value) && value <= range.high &&
         (range.open ? value > range.low : value >= range.low);
}

}  // namespace

std::optional<NetworkValue> LayerRow::take(const std::string& key, bool required) {
  read_.insert(key);
  if (const toml::node* node = table_->get(key)) return scope_->value_of(*node, key);
  if (required) {
    std::vector<std::string_view> others;
    for (const auto& [other, value] : *table_)
      if (!read_.contains(std::string(other.str()))) others.push_back(other.str());
    fail_at(key, fmt::format("{} needs it, and it is missing{}. Add {} = and its value.", type_,
                             hint_at(key, others), key));
  }
  return {};
}

template <class T, class Ok>
T LayerRow::take_as(const std::string& key, const std::optional<T>& by_default, Ok ok,
                    const std::string& problem) {
  const auto value = take(key, !by_default);
  if (!value) return *by_default;
  const T* held = std::get_if<T>(&*value);
  if (!held || !ok(*held)) fail_at(key, fmt::format("{} is {}", shown(*value), problem));
  return *held;
}

std::int64_t LayerRow::whole(const std::string& key, const Bounds& range,
                             std::optional<std::int64_t> by_default) {
  const auto ok = [&](std::int64_t number) { return inside(static_cast<double>(number), range); };
  return take_as(key, by_default, ok,
                 fmt::format("not a whole number {}. Write one.", range.text()));
}

float LayerRow::number(const std::string& key, const Bounds& range,
                       std::optional<float> by_default) {
  const auto value = take(key, !by_default);
  if (!value) return *by_default;
  const auto* whole = std::get_if<std::int64_t>(&*value);
  const auto* number = std::get_if<double>(&*value);
  double held = number ? *number : NAN;
  if (whole) held = static_cast<double>(*whole);
  if (!inside(held, range))
    fail_at(key, fmt::format("{} is not a number {}. Write one.", shown(*value), range.text()));
  return static_cast<float>(held);
}

bool LayerRow::flag(const std::string& key, bool by_default) {
  const auto ok = [](bool) { return true; };
  return take_as<bool>(key, by_default, ok, "neither true nor false. Write one of them.");
}

std::string LayerRow::choice(const std::string& key, const std::vector<std::string_view>& names) {
  const auto ok = [&](const std::string& text) { return std::ranges::count(names, text) > 0; };
  return take_as<std::string>(
      key, std::string(names.front()), ok,
      fmt::format("unknown. Use one of \"{}\".", fmt::join(names, "\", \"")));
}

std::string LayerRow::name(const std::string& key, const std::string& by_default) {
  // A name becomes a part of a name in PyTorch, and that of a group in HDF5. A single dot is the
  // group itself there.
  const auto ok = [](const std::string& text) {
    constexpr const char* kLetters =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    return text.find_first_not_of(kLetters) == text.npos && text.size() <= 100 &&
           (text.empty() || text.find_first_not_of('.') != text.npos);
  };
  return take_as<std::string>(key, by_default, ok,
                              "no name. Use letters, digits, and the signs _ - and .");
}

NamedLayers LayerRow::layers(const std::string& key, const std::string& prefix, bool required) {
  read_.insert(key);
  has_layers_ = true;
  const toml::node* node = table_->get(key);
  if (!node && required) take(key, true);
  if (!node) return {};
  const bool joins = !path_.empty() && !prefix.empty();
  return builder_->list(*node, key, *scope_, path_ + (joins ? "/" : "") + prefix);
}

void LayerRow::fail_at(const std::string& key, const std::string& what) const {
  const toml::node* node = table_->get(key);
  scope_->fail_at(node ? *node : *table_, key, what);
}

void LayerRow::finish(bool of_block) const {
  for (const auto& [key, node] : *table_) {
    const std::string name(key.str());
    if (read_.contains(name) || is_general(name, of_block)) continue;
    const std::vector<std::string_view> known(read_.begin(), read_.end());
    scope_->fail_at(
        key, one_line(name),
        fmt::format("{} has no such key{}. {}", type_, hint_at(name, known),
                    known.empty() ? "Remove it."
                                  : fmt::format("Its keys are {}.", fmt::join(known, ", "))));
  }
}

}  // namespace lockstep
