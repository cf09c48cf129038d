// Unicode code points by the tables of Unicode 14, so that words are the same on every machine and
// in every locale. Any thread.
#pragma once

#include <cstdint>

namespace lockstep {

/// Whether it is a letter, a number or a mark (categories L, N, M). Code points that Unicode 14
/// does not assign may be either.
bool is_word_part(char32_t c);

/// Its small letter, by the simple mapping for U+0000 to U+FFFF. Other code points are unchanged.
char32_t small_letter(char32_t c);

/// Whether it is a Han, Hiragana or Katakana character, which is a word of its own.
bool is_word_alone(char32_t c);

}  // namespace lockstep
