#include "src/data/data_options.h"

#include "src/base/table.h"

namespace lockstep {

void DataOptions::declare(OptionRows& rows, const DatasetEntry& by_default) {
  const DatasetEntry* generated = stand_in(by_default.name);
  rows.group("Data");
  rows.text("--data", folder, "DIR",
            fmt::format("Folder with {}{}", by_default.files,
                        generated ? "; without it a generated set is used" : ""))
      .common();
  rows.text("--dataset", dataset, "NAME",
            fmt::format("Samples to train on (see --list) [{}{}]", by_default.name,
                        generated ? fmt::format(" with --data, else {}", generated->name) : ""),
            [](const std::string& name) { find(datasets(), name); })
      .common();
  const auto read_padding = [this](const std::string& text) {
    crop_padding = text == "auto"
                       ? kOwnPadding
                       : parse_number<int>("--crop-padding", text, Bounds::at_least(0, 16));
  };
  const auto show_padding = [this] {
    return crop_padding == kOwnPadding ? "auto" : std::to_string(crop_padding);
  };
  rows.add("--crop-padding", OptionRow::Type::word, read_padding, show_padding, "N",
           "Training crops and moves images by up to so many pixels beyond their edges, where they "
           "are reflected; auto: 4 where images are whole, else 0")
      .shapes_weights();
  rows.flag("--alternate-flips", alternate_flips,
            "Mirror each training image by chance in the first epoch, and from then on in turns")
      .shapes_weights();
  rows.number("--cutout", mixing.cutout, Bounds::at_least(0, 1024),
              "Cut a square of so many pixels out of each training image; 0: none")
      .shapes_weights();
  rows.number("--mixup", mixing.mixup, Bounds::at_least(0, 4),
              "Mix each training image and its label with another's, by weights of the "
              "distribution Beta(this, this); 0: never")
      .shapes_weights();
}

}  // namespace lockstep
