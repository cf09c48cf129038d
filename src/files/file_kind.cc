#include "src/files/file_kind.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/files/hdf5_id.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr FileKind kNone{},
    kPytorch{"a PyTorch file", "Convert its weights to .safetensors (docs/training.md)."},
    kPickle{"a Python pickle", "Convert its weights to .safetensors (docs/training.md)."},
    kNumpy{"a NumPy file", "Convert it to HDF5 (docs/data.md)."},
    kKeras{"a Keras file", "Pass weights of PyTorch or Lockstep."},
    kOnnx{"an ONNX file", "Pass the checkpoint that it was exported from."},
    kSafetensors{kSafetensorsFile, "Pass it to --init of a training program."},
    kCheckpoint{kCheckpointFile, "Pass it to evaluate, classify, export_model or --init."},
    kPacked{kPackedFile, "Pass it to --data, with --dataset packed."},
    kArrays{kArraysFile, "Pass its folder to --data, with --dataset hdf5."},
    kTexts{kTextsFile, "Pass its folder to --data of train_reuters."},
    kLogits{"a file of evaluate --logits", "Pass the checkpoint that it names."},
    kImage{"an image", "Pass images to classify, after the checkpoint."},
    kArchive{"an archive", "Unpack it first."},
    kEmpty{"an empty file", "Restore it, or pass another file."},
    kPointer{"a pointer of Git LFS", "Run git lfs pull."},
    kToml{"a TOML file", "Pass it to --config or --model of a training program."},
    kText{"a text file", "Pass another file."};

struct Mark {
  std::string_view text;
  FileKind kind;
};

/// The beginnings of files. The first match counts.
constexpr Mark kBeginnings[] = {{"\x80\x02\x8a\x0al\xfc\x9c", kPytorch},
                                {"\x80\x02", kPickle},
                                {"\x80\x03", kPickle},
                                {"\x80\x04", kPickle},
                                {"\x80\x05", kPickle},
                                {"\x93NUMPY", kNumpy},
                                {"\x1f\x8b", kArchive},
                                {"\xff\xd8\xff", kImage},
                                {"\x89PNG", kImage},
                                {"GIF8", kImage},
                                {"RIFF", kImage},
                                {"BM", kImage},
                                {"II*", kImage},
                                {"version https://git-lfs", kPointer}};

/// Names in the first folder of an HDF5 file. The first match counts.
constexpr Mark kObjects[] = {{"parameters", kCheckpoint}, {"index_crc32c", kPacked},
                             {"logits", kLogits},         {"offsets", kTexts},
                             {"model_weights", kKeras},   {"layers", kKeras},
                             {"images", kArrays}};

/// The end of the name of the first file in a ZIP archive, or of the archive. NumPy, PyTorch and
/// Keras write such archives.
constexpr Mark kMembers[] = {{".npy", kNumpy},          {"data.pkl", kPytorch}, {".pth", kPytorch},
                             {".pt", kPytorch},         {".pt2", kPytorch},     {".ckpt", kPytorch},
                             {"metadata.json", kKeras}, {".bin", kPytorch}};

template <class Number>
Number number_at(std::string_view head, std::size_t place) {
  Number number = 0;
  if (head.size() >= place + sizeof number)
    std::memcpy(&number, head.data() + place, sizeof number);
  return number;
}

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
  keep_hdf5_quiet();
  const Hdf5Id opened(H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  for (const auto& [name, kind] : kObjects)
    if (opened >= 0 && H5Lexists(opened, name.data(), H5P_DEFAULT) > 0) return kind;
  return kNone;
}

/// Whether the field of a header with the version, 3 or higher, comes first.
bool is_onnx(std::string_view head) {
  constexpr char kVersion = 8, kMostVersion = 30;
  return head.size() > 2 && head[0] == kVersion && head[1] > 2 && head[1] < kMostVersion;
}

/// Whether a JSON object follows the number of its bytes.
bool is_safetensors(std::string_view head) {
  constexpr std::uint64_t kLongestHeader = 100'000'000;
  return head.size() > 8 && head[8] == '{' && number_at<std::uint64_t>(head, 0) <= kLongestHeader;
}

bool is_text(std::string_view head) {
  constexpr unsigned char kLastOfUtf8 = 0xf4;
  return std::none_of(head.begin(), head.end(), [](unsigned char letter) {
    const bool space = letter == '\n' || letter == '\r' || letter == '\t';
    return (letter < ' ' && !space) || letter > kLastOfUtf8;
  });
}

}  // namespace

FileKind kind_of(const fs::path& file) {
  std::error_code unreadable;
  if (!fs::is_regular_file(file, unreadable)) return kNone;
  std::ifstream in(file, std::ios::binary);
  std::string bytes(512, '\0');
  in.read(bytes.data(), std::ssize(bytes));
  if (in.bad() || !in.is_open()) return kNone;
  bytes.resize(in.gcount());
  const std::string_view head = bytes;
  if (head.empty()) return kEmpty;
  if (head.starts_with("\x89HDF\r\n\x1a\n")) return kind_of_hdf5(file);
  if (head.starts_with("PK")) return kind_of_archive(file, head);
  for (const auto& [beginning, kind] : kBeginnings)
    if (head.starts_with(beginning)) return kind;
  if (is_safetensors(head)) return kSafetensors;
  if (is_onnx(head)) return kOnnx;
  if (!is_text(head)) return kNone;
  return file.extension() == ".toml" ? kToml : kText;
}

void require_kind(const fs::path& file, std::string_view wanted) {
  const FileKind kind = kind_of(file);
  require(kind.name.empty() || kind.name == wanted, "{} is {}, not {}. {}", one_line(file.string()),
          kind.name, wanted, kind.cure);
}

}  // namespace lockstep
