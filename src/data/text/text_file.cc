#include "src/data/text/text_file.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/data/names.h"
#include "src/data/text/words.h"
#include "src/files/file.h"

namespace lockstep {

bool has_text_name(const std::filesystem::path& file) {
  const std::string ending = ending_of(file);
  return ending.find_first_of("abcdefghijklmnopqrstuvwxyz") == ending.npos || ending == ".txt" ||
         ending == ".text";
}

std::string read_text_file(const std::filesystem::path& file) {
  const std::string name = one_line(file.string());
  if (advice_of(file) == kUnpack) fail("{} is an archive. Unpack it, and pass its folder.", name);
  const InputFile input(file);
  std::string text(input.size(), '\0');
  input.read(0, text);
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  require(!text.starts_with("\xFF\xFE") && !text.starts_with("\xFE\xFF"),
          "{} is UTF-16. Convert it: iconv -f UTF-16 -t UTF-8.", name);
  // Bytes of another encoding would become other words without an error, so they are refused with
  // their place.
  const std::size_t invalid = invalid_utf8(text);
  if (invalid == text.npos) return text;
  const std::string before = with_unix_ends(text.substr(0, invalid));
  const auto line = 1 + std::ranges::count(before, '\n');
  fail(
      "{} is no text in UTF-8: byte 0x{:02X} in line {}. Convert it, such as with iconv -f "
      "WINDOWS-1252 -t UTF-8.",
      name, static_cast<unsigned char>(text[invalid]), line);
}

}  // namespace lockstep
