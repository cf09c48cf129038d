#include "src/files/toml.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>

#include "src/base/check.h"
#include "src/base/text.h"

void fail_toml_assertion() { throw TomlAssertion(); }

namespace lockstep {
namespace {

/// The first line up to which toml++ meets a TomlAssertion, which does not name it.
int line_of_assertion(std::string_view text) {
  int line = 1;
  for (std::size_t end = text.find('\n'); end != text.npos; end = text.find('\n', end + 1)) {
    try {
      static_cast<void>(toml::parse(text.substr(0, end)));
    } catch (const toml::parse_error&) {  // the rest may be missing
    } catch (const TomlAssertion&) {
      break;
    }
    ++line;
  }
  return line;
}

}  // namespace

std::string read_toml(const char* option, const std::filesystem::path& file, std::size_t most) {
  const std::string name = file.string();
  const auto refuse = [&](const char* why) {
    fail_usage("cannot read {} {}: {}. Pass a file.", option, name, why);
  };
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    refuse("it is not a file");  // opening a pipe would wait
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  if (!in) refuse(std::strerror(errno));
  std::string text(most + 1, '\0');
  in.read(text.data(), text.size());
  if (in.bad()) refuse(std::strerror(errno));
  text.resize(in.gcount());
  if (text.size() > most)
    fail_usage("{} {} has more than {} bytes. Pass a smaller file.", option, name, most);
  return text;
}

toml::table parse_toml(const std::string& text, const std::string& file, const char* advice) {
  // toml++ 3.3 is undefined for some letters that TOML allows only in texts and comments, such as
  // U+0282 after a number. '?' is allowed at the same places. A byte order mark stays.
  // The copy has as many bytes as the text. So the line of an error in it is the line of the text.
  std::string plain = text;
  const auto other = [](char c) { return static_cast<unsigned char>(c) > 127; };
  const std::size_t mark = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  std::replace_if(plain.begin() + mark, plain.end(), other, '?');
  try {
    static_cast<void>(toml::parse(std::string_view(plain), std::string_view(file)));
    return toml::parse(std::string_view(text), std::string_view(file));
  } catch (const TomlAssertion&) {
    fail_usage("{}:{}: TOML: a bracket or sign is not allowed here. {}", file,
               line_of_assertion(plain), advice);
  } catch (const toml::parse_error& error) {
    fail_usage("{}:{}: TOML: {}. {}", file, error.source().begin.line,
               one_line(std::string(error.description())), advice);
  }
}

}  // namespace lockstep
