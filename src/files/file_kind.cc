#include "src/files/file_kind.h"

#include <algorithm>
#include <string>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/files/file.h"
#include "src/files/hdf5_id.h"
#include "src/files/number_at.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

struct Mark {
  std::string_view text;
  FileKind kind;
};

constexpr FileKind kPytorch{kPytorchFile, "Pass it to --init of a training program."},
    kPickle{"a Python pickle", "Save model.state_dict() with torch.save."},
    kNumpy{"a NumPy file", "Write HDF5 (docs/data.md)."},
    kKeras{"a Keras file", "Pass weights of Lockstep or PyTorch."},
    kArchive{"an archive", "Unpack it first."},
    kImage{"an image", "Pass images to classify, after the checkpoint."};

/// The beginnings of files. The first match counts.
constexpr Mark kBeginnings[] = {
    // A pickle of the number with which PyTorch marks its older format, then any pickle.
    {"\x80\x02\x8a\x0al\xfc\x9c", kPytorch},
    {"\x80", kPickle},
    {"sys_info", {"a PyTorch file of 2017", "Use newer weights (scripts/get_weights.sh)."}},
    {"\x93NUMPY", kNumpy},
    {"\x1f\x8b", kArchive},
    {"\xff\xd8\xff", kImage},
    {"\x89PNG", kImage},
    {"GIF8", kImage},
    {"RIFF", kImage},
    {"BM", kImage},
    {"II*", kImage},
    {"version https://git-lfs", {"a Git LFS pointer", "Run git lfs pull."}}};

/// Names in the first folder of an HDF5 file. The first match counts.
constexpr Mark kObjects[] = {
    {"parameters", {kCheckpointFile, "Pass it to evaluate, classify, export_model or --init."}},
    {"index_crc32c", {kPackedFile, "A training program takes it: --dataset packed --data FILE."}},
    {"logits", {"a file of evaluate --logits", "Pass the checkpoint that it names."}},
    {"offsets", {kTextsFile, "Pass its folder to --data of train_reuters."}},
    {"model_weights", kKeras},
    {"layers", kKeras},
    {"images", {kArraysFile, "A training program takes its folder: --dataset hdf5 --data."}}};

/// The end of the name of the first file in a ZIP archive, or of the archive's own name.
constexpr Mark kMembers[] = {{".npy", kNumpy},          {"data.pkl", kPytorch}, {".pth", kPytorch},
                             {".pt", kPytorch},         {".pt2", kPytorch},     {".ckpt", kPytorch},
                             {"metadata.json", kKeras}, {".bin", kPytorch}};

FileKind kind_of_archive(const fs::path& file, std::string_view head) {
  constexpr std::size_t kLength = 26, kName = 30;  // APPNOTE.TXT of PKWARE, 4.3.7
  const std::string_view member =
      head.substr(std::min(head.size(), kName), number_at<std::uint16_t>(head, kLength));
  const std::string name = file.string();
  for (const auto& [end, kind] : kMembers)
    if (member.ends_with(end) || name.ends_with(end)) return kind;
  return kArchive;
}

FileKind kind_of_hdf5(const fs::path& file) {
  const auto lock = lock_hdf5();
  std::string cause;
  const Hdf5Id opened = open_hdf5(file, cause);
  if (opened < 0) return {};
  for (const auto& [name, kind] : kObjects) {
    const htri_t exists = H5Lexists(opened, name.data(), H5P_DEFAULT);
    if (exists < 0) require_hdf5_read(file);
    if (exists > 0) return kind;
  }
  return {};
}

bool is_text(std::string_view head) {
  constexpr unsigned char kLastOfUtf8 = 0xf4;
  return std::ranges::none_of(head, [](unsigned char letter) {
    const bool space = letter == '\n' || letter == '\r' || letter == '\t';
    return (letter < ' ' && !space) || letter > kLastOfUtf8;
  });
}

}  // namespace

FileKind kind_of(const fs::path& file) {
  constexpr std::uint64_t kHead = 512;
  const std::optional<std::string> beginning = read_file(file, kHead);
  if (!beginning) return {};
  const std::string& head = *beginning;
  if (head.empty()) return {"an empty file", "Restore it, or pass another file."};
  if (head.starts_with("\x89HDF\r\n\x1a\n")) return kind_of_hdf5(file);
  // The number of bytes of a JSON object, and the object. Its number may begin as another kind.
  if (head.size() > 8 && head[8] == '{' && number_at<std::uint64_t>(head, 0) < 100'000'000)
    return {kSafetensorsFile, "Pass it to --init of a training program."};
  if (head.starts_with("PK")) return kind_of_archive(file, head);
  for (const auto& [text, kind] : kBeginnings)
    if (head.starts_with(text)) return kind;
  // The field with the version comes first.
  if (head.size() > 2 && head[0] == 8 && head[1] > 2 && head[1] < 30)
    return {"an ONNX file", "Pass the checkpoint that it was exported from."};
  if (!is_text(head)) return {};
  if (file.extension() != ".toml") return {"a text file", "Pass another file."};
  return {"a TOML file", "Pass it to --config or --model of a training program."};
}

void require_kind(const fs::path& file, std::string_view wanted) {
  const FileKind kind = kind_of(file);
  require(kind.name.empty() || kind.name == wanted, "{} is {}, not {}. {}", one_line(file.string()),
          kind.name, wanted, kind.advice);
}

}  // namespace lockstep
