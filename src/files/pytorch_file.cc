#include "src/files/pytorch_file.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/files/file_kind.h"
#include "src/files/number_at.h"
#include "src/files/pickle.h"
#include "src/files/zip.h"

namespace lockstep {
namespace {

// Both formats contain one pickle of the saved object, and storages of numbers beside it. A tensor
// in the pickle is a call of a function of torch. Its arguments name a storage, an offset, extents
// and strides. read_archive() and read_old() find the storages, and tensor_of() the place of a
// tensor in the file.
//
// Counts in a file can be any 64-bit number. So each product is compared by a division before it is
// computed.
using Kind = PickleValue::Kind;

/// The name of a tensor for people.
std::string shown(const std::string& name) {
  constexpr std::size_t kMost = 100;
  return one_line(name.size() > kMost ? name.substr(0, kMost) + "..." : name);
}

/// The object that was saved, and its storages by key: numbers of one type, which tensors share.
struct Saved {
  std::unique_ptr<const Pickle> pickle;
  std::map<std::string, FilePart, std::less<>> storages;
};

/// A reference to a storage, or to a part of one.
struct StorageReference {
  std::string_view key;
  std::string type;          ///< as safetensors calls it
  std::uint64_t offset = 0;  ///< numbers of the storage before the part
  std::uint64_t count = 0;   ///< numbers of the part
};

std::string type_of_storage(std::string_view name) {
  static const std::map<std::string, std::string, std::less<>> kTypes{
      {"DoubleStorage", "F64"},       {"FloatStorage", "F32"},
      {"HalfStorage", "F16"},         {"BFloat16Storage", "BF16"},
      {"LongStorage", "I64"},         {"IntStorage", "I32"},
      {"ShortStorage", "I16"},        {"CharStorage", "I8"},
      {"ByteStorage", "U8"},          {"BoolStorage", "BOOL"},
      {"ComplexFloatStorage", "C64"}, {"ComplexDoubleStorage", "C128"}};
  const auto found = kTypes.find(name.substr(name.rfind('.') + 1));
  require(name.starts_with("torch.") && found != kTypes.end(), "its type {} is unknown",
          one_line(std::string(name)));
  return found->second;
}

std::uint64_t count_in(const PickleValue& value) {
  require(value.is(Kind::number) && value.number >= 0, "a count in it is negative or not whole");
  return value.number;
}

StorageReference reference_in(const PickleValue& value) {
  const auto& id = value.items.empty() ? value.items : value.items[0]->items;
  require(value.is(Kind::reference) && id.size() >= 5 && id[0]->text == "storage" &&
              id[2]->is(Kind::text),
          "its storage is not named");
  StorageReference reference{id[2]->text, type_of_storage(id[1]->text), 0, count_in(*id[4])};
  // Only the older format has such parts.
  if (id.size() > 5 && id[5]->items.size() == 3) {  // a part: its key, offset and size
    reference.offset = count_in(*id[5]->items[1]);
    reference.count = count_in(*id[5]->items[2]);
  }
  return reference;
}

/// Whether a reference is to a class with its source text. The older format has those too.
bool is_class(const PickleValue& reference) {
  const auto& id = reference.items[0]->items;
  return id.size() >= 2 && id[0]->text == "module";
}

Saved read_archive(const InputFile& input, TensorFile& tensors) {
  const std::map<std::string, FilePart> members = zip_members(input);
  const auto pickle = std::ranges::find_if(
      members, [](const auto& member) { return member.first.ends_with("/data.pkl"); });
  require(pickle != members.end(), "it contains no data.pkl without compression");
  const auto& [begin, end, crc32] = pickle->second;
  require(end - begin <= Pickle::kMostBytes, "its pickle has {} bytes", end - begin);
  require(crc32 == 0 || crc32_of(input, begin, end) == crc32, "its pickle has another checksum");
  Saved saved{std::make_unique<Pickle>(input.bytes(begin, end - begin)), {}};
  // PyTorch names the folder after the file that it wrote, or "archive". So only this member shows
  // it.
  const std::string folder = pickle->first.substr(0, pickle->first.rfind('/') + 1);
  if (const auto order = members.find(folder + "byteorder"); order != members.end())
    require(order->second.end - order->second.begin == 6 &&
                input.bytes(order->second.begin, 6) == "little",
            "its numbers are big-endian");
  for (const auto& [name, member] : members) {
    if (!name.starts_with(folder + "data/")) continue;
    saved.storages[name.substr(folder.size() + 5)] = member;
    tensors.add(member);
  }
  return saved;
}

/// The format before PyTorch 1.6: five pickles, then the number of elements of each storage and its
/// elements.
Saved read_old(const InputFile& input) {
  const std::string bytes = input.bytes(0, std::min(input.size(), Pickle::kMostBytes));
  std::uint64_t place = 0;
  const auto next = [&] {
    auto pickle = std::make_unique<Pickle>(std::string_view(bytes).substr(place));
    place += pickle->size();
    return pickle;
  };
  next();  // a number that marks the format
  require(next()->value().number == 1001, "its version is unknown");
  const auto system = next();
  const PickleValue* little = system->value().find("little_endian");
  require(little == nullptr || little->number == 1, "its numbers are big-endian");
  Saved saved{next(), {}};
  // The storages at the end state their counts, but not their types. Only the references in the
  // pickle do, so they decide how many bytes each storage has.
  std::map<std::string_view, std::uint64_t> widths;
  for (const PickleValue& value : saved.pickle->values()) {
    if (!value.is(Kind::reference) || is_class(value)) continue;
    const StorageReference reference = reference_in(value);
    widths[reference.key] = bytes_of_number(reference.type);
  }
  const auto keys = next();
  for (const PickleValue* key : keys->value().items) {
    const auto width = widths.find(key->text);
    require(width != widths.end(), "a storage of it is not used");
    const auto count = number_at<std::uint64_t>(input.bytes(place, 8), 0);
    place += 8;
    require(count <= (input.size() - place) / width->second, "it ends within a storage");
    saved.storages[key->text] = {place, place + count * width->second};
    place += count * width->second;
  }
  return saved;
}

bool is_tensor(const PickleValue& value) {
  const std::string_view name = value.class_name();
  return (name == "torch._utils._rebuild_tensor" || name == "torch._utils._rebuild_tensor_v2") &&
         value.items.size() >= 4;
}

/// The tensor in a Parameter; `value` itself if it is none.
const PickleValue& without_parameter(const PickleValue& value) {
  const std::string_view name = value.class_name();
  const bool parameter =
      name.starts_with("torch._utils._rebuild_parameter") || name == "torch.nn.parameter.Parameter";
  return parameter && !value.items.empty() ? *value.items[0] : value;
}

/// `value`: of is_tensor(), with the storage, its offset there, extents and strides.
TensorFile::Tensor tensor_of(const PickleValue& value, const Saved& saved) {
  const StorageReference reference = reference_in(*value.items[0]);
  const auto storage = saved.storages.find(reference.key);
  require(storage != saved.storages.end(), "its numbers are missing");
  const std::uint64_t width = bytes_of_number(reference.type),
                      available = (storage->second.end - storage->second.begin) / width,
                      offset = count_in(*value.items[1]);
  require(reference.offset <= available && reference.count <= available - reference.offset &&
              offset <= reference.count,
          "it lies outside of its numbers");
  TensorFile::Tensor tensor;
  tensor.type = reference.type;
  const std::uint64_t most = reference.count - offset;
  std::uint64_t count = 1, last = 0;  // the place of the last number
  const auto &extents = value.items[2]->items, &strides = value.items[3]->items;
  require(extents.size() == strides.size(), "its shape and its strides differ in length");
  const bool empty =
      std::ranges::any_of(extents, [](const PickleValue* extent) { return extent->number == 0; });
  // Strides are any order of the numbers: transposed tensors, and views that repeat or skip some.
  // `last` is the place of the last number, because the tensor ends there and not after count
  // numbers.
  for (std::size_t axis = 0; axis < extents.size(); ++axis) {
    const std::uint64_t extent = count_in(*extents[axis]), stride = count_in(*strides[axis]);
    tensor.shape.push_back(extent);
    tensor.strides.push_back(stride);
    if (empty) continue;
    require(count <= most / extent, "its shape needs more numbers than it has");
    count *= extent;
    require(extent == 1 || stride <= (most - last) / (extent - 1),
            "it lies outside of its numbers");
    last += (extent - 1) * stride;
  }
  require(empty || last < most, "it lies outside of its numbers");
  tensor.begin = storage->second.begin + (reference.offset + offset) * width;
  tensor.end = tensor.begin + (empty ? 0 : (last + 1) * width);
  return tensor;
}

[[noreturn]] void fail_for(const std::filesystem::path& file, const std::string& what,
                           const PickleValue& value) {
  const PickleValue& made_by = *value.function;
  const bool by_reference = made_by.is(Kind::reference) && is_class(made_by);
  const std::string name = by_reference ? made_by.items[0]->items[1]->text : made_by.text;
  if (name.starts_with("torch._"))
    fail("{}: {} comes from {}, so it is no dense tensor. Save it as one.", one_line(file.string()),
         shown(what), shown(name));
  fail("{}: {} is {}, which is code. Save model.state_dict().", one_line(file.string()),
       shown(what), shown(name));
}

/// The state_dict in the object that was saved.
const PickleValue& find_weights(const std::filesystem::path& file, const PickleValue& saved) {
  // Training programs nest it, such as {"model": {"state_dict": ...}}. The depth is limited,
  // because a dict of a damaged file can contain itself.
  constexpr int kDeepest = 3;
  const PickleValue* weights = &saved;
  for (int depth = 0; depth < kDeepest; ++depth) {
    const PickleValue* next = nullptr;
    for (const char* name : {"state_dict", "model", "model_state_dict", "model_ema"}) {
      const PickleValue* entry = weights->find(name);
      if (next == nullptr && entry != nullptr && entry->is(Kind::dict)) next = entry;
    }
    if (next == nullptr) break;
    weights = next;
  }
  if (weights->is(Kind::object) && !is_tensor(*weights))
    fail_for(file, "the saved object", *weights);
  return *weights;
}

}  // namespace

TensorFile read_pytorch(const std::filesystem::path& file) {
  const InputFile input(file);
  require_kind(file, kPytorchFile);
  TensorFile tensors(file);
  Saved saved;
  try {
    saved = input.bytes(0, std::min<std::uint64_t>(input.size(), 2)) == "PK"
                ? read_archive(input, tensors)
                : read_old(input);
  } catch (const UnreadableFile&) {
    throw;
  } catch (const Error& wrong) {
    fail("{} is damaged or not a PyTorch file: {}. Copy or download it again.",
         one_line(file.string()), wrong.what());
  }
  const PickleValue& weights = find_weights(file, saved.pickle->value());
  std::vector<std::string> others;
  for (std::size_t i = 0; weights.is(Kind::dict) && i < weights.items.size(); i += 2) {
    const PickleValue &name = *weights.items[i], &value = without_parameter(*weights.items[i + 1]);
    if (!name.is(Kind::text) || !value.is(Kind::object)) {
      others.push_back(shown(name.text));
      continue;
    }
    if (!is_tensor(value)) fail_for(file, name.text, value);
    try {
      tensors.add(name.text, tensor_of(value, saved));
    } catch (const Error& wrong) {
      fail("{}: tensor {}: {}. Copy the file again, or save a dense tensor.",
           one_line(file.string()), shown(name.text), wrong.what());
    }
  }
  require(!tensors.tensors().empty(), "{} has no state_dict{}. Save model.state_dict().",
          one_line(file.string()), others.empty() ? "" : ", only " + listed(others));
  return tensors;
}

}  // namespace lockstep
