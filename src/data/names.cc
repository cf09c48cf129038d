#include "src/data/names.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "src/base/check.h"
#include "src/base/text.h"

namespace lockstep {
namespace {

/// Whether `words`, each between two slashes, contains `word`.
bool contains(std::string_view words, const std::string& word) {
  return words.find("/" + word + "/") != words.npos;
}

/// The words of `name` in small letters; some may be empty.
std::vector<std::string> words_of(const std::string& name) {
  std::string words = lower_case(name);
  for (char& letter : words)
    if (letter >= 0 && std::isalnum(letter) == 0) letter = '/';
  return split(words, '/');
}

/// part_named() if `whole`, else part_in().
std::optional<SetPart> part_of(const std::string& name, bool whole) {
  constexpr std::string_view kOthers =
      "//set/sets/data/dataset/split/folder/images/image/imgs/img/photos/pictures/texts/";
  constexpr std::array<std::string_view, kParts> kWords{
      "/train/training/trainset/traindata/trainimages/",
      "/val/valid/validation/valset/valdata/valimages/eval/evaluation/dev/devset/",
      "/test/testing/testset/testdata/testimages/"};
  // `whole`: each word must mean the part or nothing, so "test_images" is a part and "test_tubes"
  // is none. Otherwise one word is enough, and digits such as those of "val2017" are cut off.
  std::optional<SetPart> found;
  for (std::string word : words_of(name)) {
    if (!whole) word.erase(std::min(word.find_first_of("0123456789"), word.size()));
    const auto part =
        std::ranges::find_if(kWords, [&](auto words) { return contains(words, word); });
    if (word.empty() || part == kWords.end()) {
      if (whole && !contains(kOthers, word)) return {};
      continue;
    }
    const auto now = static_cast<SetPart>(part - kWords.begin());
    if (found && *found != now) return {};
    found = now;
  }
  return found;
}

/// `name` in composed Unicode form, without case, accents and spaces at its ends. Bytes that are
/// not UTF-8 stand for ISO 8859-1.
std::u32string look_of(const std::string& name) {
  constexpr std::string_view kLatin =  // from U+00C0; '?': a letter without an accent
      "AAAAAA?CEEEEIIII?NOOOOO??UUUUY??aaaaaa?ceeeeiiii?nooooo??uuuuy?yAaAaAaCcCcCcCcDd??EeEeEeEeEe"
      "GgGgGgGgHh??IiIiIiIiI???JjKk?LlLlLl????NnNnNn???OoOoOo??RrRrRrSsSsSsSsTtTt??UuUuUuUuUuUuWwYy"
      "YZzZzZz";
  constexpr std::array<char32_t, 4> kPayload{0x1F, 0x1F, 0x0F, 0x07};  // of bytes from 0xC0
  std::u32string look;
  for (std::size_t i = name.find_first_not_of(' '); i < name.find_last_not_of(' ') + 1;) {
    char32_t c = static_cast<unsigned char>(name[i++]);
    const auto keep_going = [&] { return i < name.size() && (name[i] & 0xC0) == 0x80; };
    if (c >= 0xC0 && keep_going()) c &= kPayload[(c - 0xC0) / 16];
    while (keep_going()) c = c << 6 | (name[i++] & 0x3F);
    if (c - 0x300 < 0x70) continue;  // an accent
    if (c - 0xC0 < kLatin.size() && kLatin[c - 0xC0] != '?') c = kLatin[c - 0xC0];
    // Some systems, such as macOS, store a syllable as its letters. Unicode's formula composes them
    // (The Unicode Standard, 3.12).
    const char32_t vowel = c - 0x1161, end = c - 0x11A7;  // of a Hangul syllable
    if (!look.empty() && vowel < 21) {
      look.back() = 0xAC00 + ((look.back() - 0x1100) * 21 + vowel) * 28;
    } else if (!look.empty() && end < 28) {
      look.back() += end;
    } else {
      look.push_back(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
  }
  return look;
}

}  // namespace

std::string lower_case(std::string text) {
  for (char& letter : text)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return text;
}

std::string look_alikes(const std::vector<std::string>& names) {
  std::map<std::u32string, std::string> known;
  std::vector<std::string> pairs;
  for (const std::string& name : names) {
    const auto [other, is_new] = known.emplace(look_of(name), name);
    if (!is_new) pairs.push_back(fmt::format("\"{}\" and \"{}\"", other->second, name));
  }
  if (pairs.empty()) return "";
  return "these classes differ only in case, accents, spaces or Unicode form (NFC, NFD): " +
         listed(pairs);
}

std::optional<SetPart> part_named(const std::string& name) { return part_of(name, true); }

std::optional<SetPart> part_in(const std::string& name) { return part_of(name, false); }

bool is_of_system(const std::string& name) {
  // Windows, macOS, Linux, storage of Synology, QNAP and NetApp, languages and trackers of runs.
  constexpr std::string_view kNames =
      "/$recycle.bin/recycler/system volume information/found.000/thumbs.db/ehthumbs.db"
      "/ehthumbs_vista.db/desktop.ini/__macosx/network trash folder/temporary items/lost+found"
      "/@eadir/#recycle/#snapshot/@recycle/@recently-snapshot/@sharebin/@tmp/~snapshot/__pycache__"
      "/node_modules/wandb/mlruns/lightning_logs/";
  return name.starts_with('.') || contains(kNames, lower_case(name));
}

std::string ending_of(const std::filesystem::path& file) {
  return lower_case(file.extension().string());
}

bool has_image_name(const std::filesystem::path& file) {
  constexpr std::string_view kEndings =
      "/.jpg/.jpeg/.jpe/.jfif/.pjpeg/.pjp/.png/.apng/.webp/.bmp/.dib/.gif/.tif/.tiff/.heic/.heif"
      "/.hif/.avif/";
  return contains(kEndings, ending_of(file));
}

std::string_view advice_of(const std::filesystem::path& file) {
  constexpr std::pair<std::string_view, std::string_view> kAdvice[]{
      {"/.jxl/.jp2/.j2k/.jpx/.jxr/.tga/.ppm/.pgm/.pbm/.pnm/.ico/.exr/.hdr/.psd/.psb/.xcf/.svg/.eps"
       "/.ai/.pdf/.dcm/.dng/.cr2/.cr3/.nef/.arw/.raf/.orf/.rw2/.pef/.srw/.raw/",
       "Convert them to JPEG or PNG"},
      {"/.mp4/.mov/.avi/.mkv/.webm/.m4v/.mpg/", "Save their frames as JPEG or PNG"},
      {"/.zip/.tar/.gz/.tgz/.bz2/.xz/.zst/.7z/.rar/", kUnpack}};
  for (const auto& [endings, advice] : kAdvice)
    if (contains(endings, ending_of(file))) return advice;
  return {};
}

}  // namespace lockstep
