// The meaning of names of files and folders of photos.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

enum SetPart : std::uint8_t { kTrain, kValidation, kTest };
inline constexpr std::size_t kParts = 3;
inline constexpr std::array<const char*, kParts> kPartNames{"training", "validation", "test"};

/// `text` with small letters, A to Z only.
std::string lower_case(std::string text);

/// "these classes differ only in case, ...: "a" and "A"": names that look alike. Empty: none do.
std::string look_alikes(const std::vector<std::string>& names);

/// The part of a data set in a folder of this name, such as "Training" or "test_set".
std::optional<SetPart> part_named(const std::string& name);

/// The part that a word of the name means, such as of "imagenet-train" or "val2017". Classes can
/// have such names, such as "bullet_train". Empty: no word means a part, or words mean two.
std::optional<SetPart> part_in(const std::string& name);

/// Whether the file or folder is hidden, or has a name that systems and tools give to their own.
bool is_of_system(const std::string& name);

/// The name's last dot and what follows, in small letters.
std::string ending_of(const std::filesystem::path& file);

/// Whether the name ends like that of an image file.
bool has_image_name(const std::filesystem::path& file);

inline constexpr std::string_view kUnpack = "Unpack them";  ///< advice_of() an archive
/// The advice for a file that contains images, but is not read. Empty: it is another file.
std::string_view advice_of(const std::filesystem::path& file);

}  // namespace lockstep
