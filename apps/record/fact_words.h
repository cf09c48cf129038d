// Facts of a run in words, where they are printed.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace lockstep {

inline constexpr const char* kNotSet = "not set";

/// Any value; kNotSet: it is null, or a list without values.
std::string words_of(const nlohmann::ordered_json& value);
/// The value with printable() texts.
nlohmann::ordered_json cleaned(const nlohmann::ordered_json& value);
/// "canonical", or "that of mpi on 2 ranks in buckets of 25 MiB": the order of sums.
std::string order_words(const nlohmann::ordered_json& order);
/// For a network of a file and one of the registry. Two files have network_difference().
std::string network_words(const nlohmann::ordered_json& text);
/// "the global batch": TrainingStep::statistics().
std::string statistics_text(const std::string& statistics);

}  // namespace lockstep
