#include "src/data/image/names.h"

#include <utility>

namespace lockstep {
namespace {

/// Whether `words`, each between two slashes, contains `word`.
bool contains(std::string_view words, const std::string& word) {
  return words.find("/" + word + "/") != words.npos;
}

}  // namespace

std::string lower_case(std::string text) {
  for (char& letter : text)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return text;
}

std::optional<SetPart> part_named(const std::string& name) {
  constexpr std::array<std::string_view, kParts> kNames{
      "/train/training/", "/val/valid/validation/eval/dev/", "/test/testing/"};
  for (std::size_t part = 0; part < kParts; ++part)
    if (contains(kNames[part], lower_case(name))) return static_cast<SetPart>(part);
  return {};
}

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
      "/.jpg/.jpeg/.jpe/.jfif/.pjpeg/.pjp/.png/.apng/.webp/.bmp/.dib/.gif/.tif/.tiff/.heic/.heif/"
      ".hif"
      "/.avif/";
  return contains(kEndings, ending_of(file));
}

std::string_view cure_of(const std::filesystem::path& file) {
  constexpr std::pair<std::string_view, std::string_view> kCures[]{
      {"/.jxl/.jp2/.j2k/.jpx/.jxr/.tga/.ppm/.pgm/.pbm/.pnm/.ico/.exr/.hdr/.psd/.psb/.xcf/.svg/.eps"
       "/.ai/.pdf/.dcm/.dng/.cr2/.cr3/.nef/.arw/.raf/.orf/.rw2/.pef/.srw/.raw/",
       "Convert them to JPEG or PNG"},
      {"/.mp4/.mov/.avi/.mkv/.webm/.m4v/.mpg/", "Save their frames as JPEG or PNG"},
      {"/.zip/.tar/.gz/.tgz/.bz2/.xz/.zst/.7z/.rar/", kUnpack}};
  for (const auto& [endings, cure] : kCures)
    if (contains(endings, ending_of(file))) return cure;
  return {};
}

}  // namespace lockstep
