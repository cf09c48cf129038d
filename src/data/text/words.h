// The words of a text, and their numbers for a network.
//
// The rule: a word is a run of letters, numbers and marks (unicode.h), in small letters. A Han,
// Hiragana or Katakana character is a word of its own. All other characters separate words. Texts
// are not normalised, so a letter with a combining accent differs from the composed letter.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lockstep {

/// The rule above, for people who read an exported file.
inline constexpr const char* kWordRule =
    "runs of characters of the Unicode categories L, N and M, each in its small letter; a "
    "character "
    "from U+3040 to U+30FF, U+3400 to U+9FFF, U+F900 to U+FAFF, U+FF66 to U+FF9D or U+20000 to "
    "U+3FFFF is a word of its own";

/// The place of the first byte that is not UTF-8; npos: all is.
std::size_t invalid_utf8(std::string_view text);

/// The beginning of a text in UTF-8 for people: at most `most` characters, on one line. "..." ends
/// it if there are more.
std::string excerpt_of(std::string_view text, std::int64_t most);

/// Calls `each` with every word of a text in UTF-8, in order.
void for_each_word(std::string_view text, const std::function<void(std::string_view)>& each);

/// Numbers of words: 0 is padding, 1 the start of a text, 2 a word that is not in the vocabulary, 4
/// the most frequent word, as in Keras' Reuters newswires. Any number of threads may read.
class Vocabulary {
 public:
  static constexpr std::int32_t kPadding = 0, kStart = 1, kUnknown = 2, kFirst = 4;

  /// `words`: the most frequent first.
  explicit Vocabulary(std::vector<std::string> words);
  /// The `most` most frequent words of these texts. Equally frequent words are in the order of
  /// their bytes.
  static Vocabulary of(const std::vector<std::string_view>& texts, std::size_t most);
  /// The reverse of text(). Throws Error if `lines` is empty.
  static Vocabulary from(std::string_view lines);

  const std::vector<std::string>& words() const { return words_; }
  /// The words, one on a line.
  std::string text() const;
  /// kStart and the numbers of a text's words, `length` in all: the last ones, after padding if the
  /// text is shorter.
  std::vector<std::int32_t> numbers(std::string_view text, std::int64_t length) const;

 private:
  std::vector<std::string> words_;
  std::unordered_map<std::string, std::int32_t> numbers_;
};

}  // namespace lockstep
