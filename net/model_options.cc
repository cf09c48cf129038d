#include "net/model_options.h"

#include "net/model.h"
#include "src/base/table.h"
#include "src/data/data_options.h"

namespace lockstep {

bool is_network_file(const std::string& model) { return model.ends_with(".toml"); }

void ModelOptions::declare(OptionRows& rows, std::string_view by_default,
                           const std::string& published) {
  const char* shown = find(models(), by_default).words ? "reuters" : "resnet20";
  rows.group("Model");
  rows.text("--model", given, "NAME",
            fmt::format("Model (see --list), or file of layers FILE.toml [the data set's, {}]\n"
                        "docs/models.md describes the file.",
                        by_default),
            [](const std::string& model) {
              if (!is_network_file(model)) find(models(), model);
            })
      .suggests(names_of(models()))
      .common()
      .example(published.empty() ? shown : published)
      .also_called({"arch"});
  if (!published.empty()) {
    rows.flag("--as-published", as_published,
              fmt::format("Published example with its mistake (--model {})", published));
  }
  rows.type("--precision", precision,
            "Type of activations: fp32 or bf16\nWeights and sums stay fp32.", {"fp32", "bf16"})
      .shapes_weights()
      .common()
      .also_called({"amp bf16", "bf16 bf16", "dtype", "fp16 bf16"});
  rows.text("--init", init, "RUN",
            "Run, checkpoint, .safetensors or PyTorch file with the first weights [random]\n"
            "A run is its name in runs/ or its folder. It gives best.h5, or else its newest "
            "checkpoint. A last layer of other classes begins with zeros.")
      .shapes_weights()
      .common()
      .example("runs/first/checkpoints/best.h5")
      .also_called({"pretrained", "weights"});
  rows.flag("--sync-bn", sync_bn,
            "Synchronised batch norm: statistics of the global batch, not of shards\n"
            "With --accumulate, the statistics cover one micro-batch of each rank.")
      .example(kOnImages.substr(1));
  rows.add(
          "--small-images", OptionRow::Type::word,
          [this](const std::string& text) { small_images = parse_stages(text); },
          [this] { return text_of(small_images); }, "SIZES",
          "Progressive resizing: smaller images in the first epochs [none]\n"
          "20:3,24:5 trains on images of 20 pixels in height until epoch 3, of 24 until epoch 5, "
          "then of all; none switches it off. The width follows. A step costs about as much as its "
          "pixels. Evaluation uses all pixels.")
      .shapes_weights()
      .example("16:5" + kOnImages)
      .also_called({"progressive-resizing"});
}

}  // namespace lockstep
