// Packs a folder of photos into one HDF5 file for --dataset packed.

#include <cstdio>

#include "apps/use/run_use.h"
#include "src/base/check.h"
#include "src/base/machine.h"
#include "src/base/table.h"
#include "src/base/text.h"
#include "src/data/data_options.h"
#include "src/data/image/packed.h"
#include "src/report/report.h"

namespace lockstep {
namespace {

struct PackOptions {
  std::string program, folder, file, labels;
  ImageOptions images;
  Split validation;
  int threads = 0;
};

void declare(OptionRows& rows, PackOptions& o) {
  rows.group("Options");
  rows.text("FOLDER", o.folder, "", "Folder with train/CLASS and val/CLASS, or with class folders")
      .example("photos");
  rows.text("FILE", o.file, "", "HDF5 file to write, such as photos.h5").example("photos.h5");
  declare_labels(rows, o.labels).example("labels.csv");
  declare_split(rows, o.validation);
  declare_image_files(rows, o.images);
  rows.optional_number("--threads", o.threads, Bounds::at_least(1, 1024),
                       "Threads that check the images [all cores]")
      .example("2");
}

int run(World&, const PackOptions& o) {
  DataSource source{
      .place = {{o.folder}, o.labels}, .images = o.images, .validation = o.validation};
  source.threads = o.threads > 0 ? o.threads : static_cast<int>(allowed_cores().size());
  require_source(find(datasets(), "folder"), source);
  std::vector<std::string> notes;
  const std::uint64_t bytes = pack_images(source, o.file, notes);
  for (const std::string& note : notes) print_error(fmt::format("pack_images: note: {}\n", note));
  Console().line(fmt::format("{}: {:.1f} MiB of images. Train with --dataset packed --data {}",
                             o.file, bytes * 0x1p-20, o.file));
  return kExitSuccess;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  return run_use<PackOptions>(argc, argv, {"pack_images"},
                              {"pack_images", "Packs a folder of photos into one HDF5 file",
                               "pack_images [OPTIONS] FOLDER FILE"},
                              declare, run);
}
