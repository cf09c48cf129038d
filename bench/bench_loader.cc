// The speed of the loader on a folder of photos, in images/s of a core: ./bench_loader --data
// PHOTOS
//
// Compared with libjpeg-turbo's own decoding of the same JPEG files at full size, which a crop need
// not do. bench/peers/photo_loaders.py measures SPDL and torchvision's DataLoader.

#include <cstdio>
// clang-format off
#include <jpeglib.h>
// clang-format on

#include <algorithm>
#include <ctime>

#include "apps/options/command_line.h"
#include "apps/options/help.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/table.h"
#include "src/data/data_options.h"
#include "src/data/image/image.h"
#include "src/data/image/photos.h"
#include "src/data/loader.h"

namespace lockstep {
namespace {

struct BenchOptions {
  double seconds = 3;
  bool json = false;
  DataOptions data;
};

/// Calls `call`, which returns a number of images, for `seconds`. Returns images per second of
/// processor time of all threads, which other programs on the machine change little.
template <class Call>
double rate_of(double seconds, const Call& call) {
  call();
  const double start = now_seconds();
  const std::clock_t begin = std::clock();
  std::int64_t count = 0;
  while (now_seconds() - start < seconds) count += call();
  return static_cast<double>(count) * CLOCKS_PER_SEC / static_cast<double>(std::clock() - begin);
}

/// libjpeg-turbo's decoding to RGB, or of CMYK to itself, by its default settings. The file must be
/// whole.
void decode_whole(const std::vector<std::uint8_t>& file, std::vector<std::uint8_t>& rgb) {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, file.data(), file.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = info.num_components == 4 ? JCS_CMYK : JCS_RGB;
  jpeg_start_decompress(&info);
  const std::size_t row = std::size_t{info.output_width} * info.output_components;
  rgb.resize(row * info.output_height);
  while (info.output_scanline < info.output_height) {
    JSAMPROW to = rgb.data() + row * info.output_scanline;
    jpeg_read_scanlines(&info, &to, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
}

double decoder_rate(const ImageIndex& index, double seconds) {
  std::vector<std::vector<std::uint8_t>> files;
  for (std::int64_t i = 0; i < index.parts[kTrain].size() && files.size() < 500; ++i) {
    files.push_back(read_image_bytes(index.parts[kTrain].path(i)));
    if (files.back().size() < 2 || files.back()[0] != 0xff) files.pop_back();
  }
  if (files.empty()) return 0;
  std::vector<std::uint8_t> rgb;
  std::size_t next = 0;
  return rate_of(seconds, [&] {
    decode_whole(files[next++ % files.size()], rgb);
    return 1;
  });
}

double loader_rate(const Dataset& photos, const BenchOptions& o) {
  constexpr std::int64_t kBatch = 64;
  HostLoader loader(photos, {.seed = 1,
                             .global_batch = kBatch,
                             .workers = std::max(1, o.data.workers),
                             .pixels = o.data.pixels,
                             .mixing = o.data.mixing});
  for (int i = 0; i < 8; ++i) loader.next();  // those that were prepared ahead
  return rate_of(o.seconds, [&] {
    loader.next();
    return kBatch;
  });
}

/// False: only print `text`.
bool parse(int argc, char** argv, BenchOptions& o, std::string& text) {
  OptionRows rows;
  rows.group("Benchmark");
  rows.number("--seconds", o.seconds, Bounds::above_zero(3600), "Duration of each measurement");
  rows.flag("--json", o.json, "One line of JSON instead of a table");
  o.data.images.size = 224;
  o.data.declare(rows, find(datasets(), "folder"));
  rows.at("--dataset").example("folder");
  const ProgramText program{"bench_loader", "Times the loader of photos",
                            "bench_loader --data DIR [OPTIONS]"};
  if (!read_command_line(rows, program, argc, argv, text)) return false;
  if (o.data.place.folders.empty()) fail_usage("bench_loader needs photos. Pass --data DIR.");
  return true;
}

int run(BenchOptions o) {
  const DataSource source = o.data.source(1);
  const OpenedData pair =
      find(datasets(), o.data.dataset.empty() ? "folder" : o.data.dataset).open(source);
  const double loader = loader_rate(*pair.train, o),
               decoder = decoder_rate(find_images(source), o.seconds);
  if (o.json) {
    fmt::print("{{\"edge\": {}, \"loader\": {:.1f}, \"decoder\": {:.1f}}}\n", source.images.size,
               loader, decoder);
    return kExitSuccess;
  }
  fmt::print("{:<44} {:>8}\n{:<44} {:>8.0f}\n{:<44} {:>8.0f}\n", "", "images/s of a core",
             fmt::format("loader at {}", source.images.size), loader,
             "libjpeg-turbo, whole JPEG files", decoder);
  return kExitSuccess;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  BenchOptions options;
  return run_without_ranks(
      "bench_loader", [&](std::string& answer) { return parse(argc, argv, options = {}, answer); },
      [&] { return run(options); });
}
