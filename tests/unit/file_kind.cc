// Files of other kinds are named with the way on, by every reader; damaged files are not.
#include "src/files/file_kind.h"

#include <gtest/gtest.h>
#include <hdf5.h>

#include "net/checkpoint.h"
#include "net/initial_weights.h"
#include "src/base/table.h"
#include "src/data/dataset.h"
#include "src/files/hdf5.h"
#include "src/files/pytorch_file.h"
#include "src/files/safetensors.h"
#include "tests/support/error_of.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

using namespace std::string_literals;

/// The beginning of a ZIP archive whose first file has this name.
std::string zip(const std::string& member) {
  std::string head = "PK\x03\x04";
  head.append(26, '\0').append(member).append(100, 'x');
  head[26] = static_cast<char>(member.size());
  return head;
}

std::string safetensors(const std::string& header) {
  std::string length(8, '\0');
  length[0] = static_cast<char>(header.size());
  return length + header;
}

/// An HDF5 file with an array of each name.
void put_hdf5(const std::filesystem::path& file, const std::vector<std::string>& names) {
  Hdf5Writer writer(file);
  const std::vector<float> values{1, 2};
  for (const std::string& name : names) writer.array(name, {2}, values);
  writer.commit();
}

struct Case {
  const char* name;
  std::string bytes;
  std::string_view kind;  ///< a word of its name
};

const std::vector<Case>& cases() {
  static const std::vector<Case> kCases{
      {"new.pth", zip("archive/data.pkl"), "PyTorch"},
      {"renamed", zip("resnet18/data.pkl"), "PyTorch"},
      {"cut.pth", "PK\x03\x04", "PyTorch"},
      {"cut.pt", "PK", "PyTorch"},
      {"model.ckpt", zip("a/version"), "PyTorch"},
      {"old.pth", "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j"s + std::string(90, '\0'), "PyTorch"},
      {"tar.pth", "sys_info\0\0"s + std::string(300, '\0'), "2017"},
      {"some.pkl", "\x80\x04\x95\x10\0\0\0\0\0\0\0}"s, "pickle"},
      {"x.onnx", "\x08\x08\x12\x08lockstep\x1a\x05v0.1\x3a\xff\x7f\0"s, "ONNX"},
      {"of_pytorch.onnx", "\x08\x07\x12\x07pytorch\x1a\0032.1:\x80\x01\0"s, "ONNX"},
      {"x.safetensors", safetensors(R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})"),
       ".safetensors"},
      {"0x80.safetensors", "\x80\x4e\0\0\0\0\0\0{\"a\":"s, ".safetensors"},
      {"PK.safetensors", "PK\0\0\0\0\0\0{\"a\":"s, ".safetensors"},
      {"x.npz", zip("images.npy"), "NumPy"},
      {"x.npy", "\x93NUMPY\x01\0v\0"s, "NumPy"},
      {"x.keras", zip("metadata.json"), "Keras"},
      {"photos.zip", zip("photos/a.jpg"), "archive"},
      {"photos.tar.gz", "\x1f\x8b\x08\0\0"s, "archive"},
      {"a.jpg", "\xff\xd8\xff\xe0\0\x10JFIF"s, "image"},
      {"a.png", "\x89PNG\r\n\x1a\n\0\0"s, "image"},
      {"a.webp", "RIFF\x10\0\0\0WEBPVP8 "s, "image"},
      {"a.bmp", "BM\x10\0\0\0"s, "image"},
      {"a.gif", "GIF89a\x10\0"s, "image"},
      {"config.toml", "lr = 0.1\n", "TOML"},
      {"summary.json", "{\"status\": \"complete\"}", "text"},
      {"weights.h5", "<!DOCTYPE html>\n<html lang=\"de\">\xc3\xa4</html>", "text"},
      {"resnet18.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "LFS"},
      {"empty.h5", "", "empty"}};
  return kCases;
}

TEST(FileKind, IsKnownByContent) {
  const TemporaryDirectory directory;
  for (const Case& one : cases()) {
    put(directory / one.name, one.bytes);
    const FileKind kind = kind_of(directory / one.name);
    EXPECT_TRUE(kind.name.find(one.kind) != kind.name.npos) << one.name << ": " << kind.name;
    EXPECT_FALSE(kind.advice.empty());
  }
}

TEST(FileKind, OfHdf5IsKnownByItsObjects) {
  const TemporaryDirectory directory;
  const std::pair<std::vector<std::string>, std::string_view> files[] = {
      {{"parameters/conv/weights"}, kCheckpointFile},
      {{"index_crc32c", "train/images"}, kPackedFile},
      {{"images", "labels"}, kArraysFile},
      {{"values", "offsets", "labels"}, kTextsFile},
      {{"samples", "labels", "logits"}, "a file of evaluate --logits"},
      {{"model_weights/dense/kernel"}, "a Keras file"},
      {{"layers/dense/vars/0", "optimizer/vars/0"}, "a Keras file"},
      {{"something"}, ""}};
  for (const auto& [names, kind] : files) {
    put_hdf5(directory / "x.h5", names);
    EXPECT_EQ(kind_of(directory / "x.h5").name, kind) << names[0];
  }
}

TEST(FileKind, OfDamagedAndMissingFilesIsUnknown) {
  const TemporaryDirectory directory;
  put_hdf5(directory / "whole.h5", {"parameters/a/weights"});
  const std::string whole = contents(directory / "whole.h5");
  std::string zeros = whole;
  zeros.replace(0, 64, 64, '\0');
  for (const std::string& bytes :
       {whole.substr(0, 40), whole.substr(0, whole.size() / 2), zeros, std::string(999, '\xff')}) {
    put(directory / "x.h5", bytes);
    EXPECT_EQ(kind_of(directory / "x.h5").name, "") << bytes.size();
    expect_error({"x.h5", "damaged"}, [&] { Checkpoint(directory / "x.h5"); });
  }
  for (const char* name : {"none", "."}) {
    EXPECT_EQ(kind_of(directory / name).name, "");
    EXPECT_NO_THROW(require_kind(directory / name, kCheckpointFile));
  }
}

/// Each way to read a file, and the kind that it reads. A data set reads `name` in a folder.
struct Reading {
  const char* about;
  std::string_view wanted;
  void (*read)(const std::filesystem::path& file);
  const char* name = nullptr;
};

DataSource source_of(const std::filesystem::path& folder) {
  DataSource source{.place = {{folder}}};
  source.images.size = 32;
  return source;
}

constexpr Reading kReadings[] = {
    {"a checkpoint", kCheckpointFile, [](const auto& file) { Checkpoint{file}; }},
    {"--init", kCheckpointFile, [](const auto& file) { initial_metadata(file); }},
    {"safetensors", kSafetensorsFile, [](const auto& file) { read_safetensors(file); }},
    {"pytorch", kPytorchFile, [](const auto& file) { read_pytorch(file); }},
    {"packed", kPackedFile,
     [](const auto& file) { find(datasets(), "packed").open(source_of(file)); }},
    {"hdf5", kArraysFile,
     [](const auto& file) { find(datasets(), "hdf5").open(source_of(file.parent_path())); },
     "train.h5"},
    {"reuters", kTextsFile,
     [](const auto& file) { find(datasets(), "reuters").open(source_of(file.parent_path())); },
     "reuters.h5"}};

TEST(FileKind, EveryReaderNamesOtherKinds) {
  const TemporaryDirectory directory;
  for (const Case& one : cases()) {
    for (const Reading& reading : kReadings) {
      const std::filesystem::path file = directory / (reading.name ? reading.name : one.name);
      put(file, one.bytes);
      const bool init = reading.about == std::string_view("--init");
      const FileKind kind = kind_of(file);
      const bool tensors = kind.name == kSafetensorsFile || kind.name == kPytorchFile;
      if (kind.name == reading.wanted || (init && tensors)) continue;
      const std::string error = error_of([&] { reading.read(file); });
      EXPECT_TRUE(mentions(error, {std::string(kind.name), std::string(kind.advice)}))
          << reading.about << " of " << one.name << ": " << error;
      EXPECT_FALSE(mentions(error, {"damaged"})) << error;
    }
  }
  const std::pair<const char*, std::string_view> own[] = {{"parameters", kCheckpointFile},
                                                          {"index_crc32c", kPackedFile},
                                                          {"images", kArraysFile},
                                                          {"offsets", kTextsFile}};
  for (const auto& [name, kind] : own) {
    for (const Reading& reading : kReadings) {
      if (reading.wanted == kind) continue;
      const std::filesystem::path file = directory / (reading.name ? reading.name : "x.h5");
      put_hdf5(file, {name});
      const std::string error = error_of([&] { reading.read(file); });
      EXPECT_TRUE(mentions(error, {std::string(kind), "not"})) << reading.about << ": " << error;
    }
  }
}

TEST(FileKind, OfWeightsIsItsContent) {
  const TemporaryDirectory directory;
  put(directory / "weights.bin", safetensors(R"({"__metadata__":{"model":"m"}})"));
  EXPECT_EQ(initial_metadata(directory / "weights.bin").texts.at("model"), "m");
}

}  // namespace
}  // namespace lockstep
