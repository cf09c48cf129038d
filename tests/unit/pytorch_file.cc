// Files of torch.save(): both formats, every kind of number and view, and hostile files.
#include "src/files/pytorch_file.h"

#include <gtest/gtest.h>

#include <random>

#include "src/files/number_at.h"
#include "src/files/pickle.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"
#include "tests/support/pytorch_file.h"

namespace lockstep {
namespace {

using namespace pickled;
using namespace std::string_literals;

/// 0, 1, 2, ... as numbers of a type.
template <class Number>
std::string counting(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += bytes_of(static_cast<Number>(i));
  return bytes;
}

/// A part of a storage.
std::string part(std::int32_t offset, std::int32_t count) {
  return tuple({text("part"), number(offset), number(count)});
}

class PytorchFile : public testing::Test {
 protected:
  /// Writes a new file, because some file systems sync an old one that becomes shorter.
  void write(const std::string& bytes) {
    std::filesystem::remove(file_);
    put(file_, bytes);
  }
  TensorFile read(const std::string& bytes) {
    write(bytes);
    return read_pytorch(file_);
  }
  std::string error(const std::string& bytes) {
    const std::string text = error_of([&] { read(bytes); });
    EXPECT_TRUE(mentions(text, {file_.string()}));
    EXPECT_EQ(text.find('\n'), text.npos);
    return text;
  }
  /// The error for a file with this object, whose only storage has 6 floats.
  std::string error_of_object(const std::string& value) {
    const std::string text = error(new_file(value, {counting<float>(6)}));
    const bool used = value.find("Storage") != value.npos;
    EXPECT_EQ(error(used ? old_file(value, {counting<float>(6)}, {4}) : old_file(value, {}, {})),
              text);
    return text;
  }

  const std::string six_ = storage("FloatStorage", "0", 6);
  const std::string weight_ = tensor(six_, 0, {2, 3}, {3, 1});
  /// A file of each format with a tensor and a count.
  const std::string both_ =
      dict({text("a.weight"), weight_, text("count"),
            tensor(storage("LongStorage", "1", 1), 0, {}, {}), text("epoch"), number(3)});
  const std::string new_ = new_file(both_, {counting<float>(6), counting<std::int64_t>(1)});
  const std::string old_ = old_file(both_, {counting<float>(6), counting<std::int64_t>(1)}, {4, 8});

  TemporaryDirectory folder_;
  std::filesystem::path file_ = folder_.path() / "weights.pth";
};

TEST_F(PytorchFile, BothFormatsHaveTheSameTensors) {
  for (const std::string& bytes : {new_, old_}) {
    const TensorFile file = read(bytes);
    ASSERT_EQ(file.tensors().size(), 2u);
    EXPECT_EQ(file.tensors().at("a.weight").shape, (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(file.read("a.weight"), (std::vector<float>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(file.tensors().at("count").type, "I64");
    expect_error({"count", "I64"}, [&] { file.read("count"); });
  }
}

TEST_F(PytorchFile, ReadsEveryTypeAndView) {
  const std::string half = "\x00\x3e\x00\xc0"s, bfloat = "\xc0\x3f\x00\xc0"s;  // 1.5 and -2
  const std::string shared = storage("FloatStorage", "3", 12);
  const std::pair<const char*, std::string> tensors[] = {
      {"double", tensor(storage("DoubleStorage", "0", 2), 0, {2}, {1})},
      {"half", tensor(storage("HalfStorage", "1", 2), 0, {2}, {1})},
      {"bfloat", tensor(storage("BFloat16Storage", "2", 2), 0, {2}, {1})},
      {"transposed", tensor(shared, 0, {3, 2}, {1, 3})},
      {"part", tensor(shared, 1, {2, 2}, {6, 2})},
      {"last", tensor(shared, 0, {1, 3, 2, 2}, {12, 1, 6, 3})},
      {"view", tensor(storage("FloatStorage", "3", 12, part(3, 4)), 1, {2}, {2})},
      {"one", tensor(shared, 11, {}, {})},
      {"none", tensor(shared, 12, {0, 7}, {7, 1})},
      {"module._orig_mod.bool", tensor(storage("BoolStorage", "4", 1), 0, {1}, {1})}};
  std::string value = "}(";
  for (const auto& [name, of] : tensors) value += text(name) + of;
  value += "u";
  const std::vector<std::string> storages{counting<double>(2), half, bfloat, counting<float>(12),
                                          "\1"};
  for (const std::string& bytes :
       {new_file(value, storages), old_file(value, storages, {8, 2, 2, 4, 1})}) {
    const TensorFile file = read(bytes);
    EXPECT_EQ(file.read("double"), (std::vector<float>{0, 1}));
    for (const char* name : {"half", "bfloat"})
      EXPECT_EQ(file.read(name), (std::vector<float>{1.5f, -2})) << name;
    EXPECT_EQ(file.read("transposed"), (std::vector<float>{0, 3, 1, 4, 2, 5}));
    EXPECT_EQ(file.read("part"), (std::vector<float>{1, 3, 7, 9}));
    EXPECT_EQ(file.read("last"), (std::vector<float>{0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11}));
    EXPECT_EQ(file.read("view"), (std::vector<float>{4, 6}));
    EXPECT_EQ(file.read("one"), std::vector<float>{11});
    EXPECT_EQ(file.read("none"), std::vector<float>{});
    EXPECT_EQ(file.tensors().at("module.bool").type, "BOOL");
  }
}

TEST_F(PytorchFile, FindsTheStateInACheckpoint) {
  const std::string code = call(name("argparse", "Namespace"), {}) + dict({text("lr"), number(1)}) +
                           "b",
                    state = dict({text("a"), weight_}), other = dict({text("b"), weight_});
  const std::string beside[] = {text("args"), code, text("optimizer"),
                                dict({text("state"), dict({number(0), weight_})})};
  for (const char* entry : {"state_dict", "model", "model_state_dict", "model_ema"}) {
    const TensorFile file =
        read(new_file(dict({beside[0], beside[1], text(entry), state, beside[2], beside[3]}),
                      {counting<float>(6)}));
    ASSERT_EQ(file.tensors().size(), 1u) << entry;
    EXPECT_EQ(file.read("a"), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  }
  const std::string both = dict({text("model_ema"), other, text("model"), state});
  EXPECT_TRUE(read(new_file(both, {counting<float>(6)})).tensors().contains("a"));
  const std::string named = dict({text("model"), text("resnet18"), text("state_dict"), state});
  EXPECT_TRUE(read(new_file(named, {counting<float>(6)})).tensors().contains("a"));
}

TEST_F(PytorchFile, ReadsOtherWaysToWriteTheSame) {
  const std::string ordered = name("collections", "OrderedDict");
  const auto old_text = [](const std::string& value) {
    return fmt::format("U{}{}", static_cast<char>(value.size()), value);
  };
  const std::string parameter = name("torch.nn.parameter", "Parameter") + tuple({weight_}) + "\x81";
  const std::string values[] = {
      dict({text("a"), call(name("torch._utils", "_rebuild_parameter"), {weight_, "\x88", "N"})}),
      dict({text("a"), parameter + tuple({"\x88", "\x89", "N"}) + "b"}),
      call(ordered, {}) + "(" + text("a") + weight_ + "u" +
          dict({text("_metadata"), call(ordered, {})}) + "b",
      // Python 2
      call(ordered, {"](](" + old_text("a") + weight_ + "ee"}),
      // protocol 4, with names from the stack and a memo without numbers
      "}\x8c\1a\x94"s + "\x8c\x0ctorch._utils\x8c\x12_rebuild_tensor_v2\x93" +
          tuple({six_, "K\0"s, "K\2K\3\x86", "K\3K\1\x86"}) + "Rs"};
  for (const std::string& value : values) {
    for (const std::string& bytes :
         {new_file(value, {counting<float>(6)}), old_file(value, {counting<float>(6)}, {4})})
      EXPECT_EQ(read(bytes).read("a"), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  }
}

TEST_F(PytorchFile, ReadsWholeNumbers) {
  const std::pair<std::string, std::int64_t> numbers[] = {
      {"\x8a\0"s, 0},
      {"\x8a\x02\0\xff"s, -256},
      {"\x8b\x02\0\0\0\xff\0"s, 255},
      {"K\xff", 255},
      {"M\xff\xff", 65535},
      {"J\xff\xff\xff\xff", -1},
      {"\x8a\x08" + bytes_of(std::int64_t{-5'000'000'000}), -5'000'000'000}};
  for (const auto& [code, number] : numbers) EXPECT_EQ(Pickle(code + ".").value().number, number);
  EXPECT_TRUE(Pickle("\x8a\x09" + std::string(9, '\1') + ".").value().is(PickleValue::Kind::other));
}

TEST_F(PytorchFile, NamesWhatIsCode) {
  const std::string module = name("models", "Net\x1b") + tuple({}) + "\x81}b",
                    by_source = tuple({text("module"), name("models", "Net"), text("net.py")}) +
                                "Q" + tuple({}) + "\x81}b";
  const std::pair<std::string, std::vector<std::string_view>> refused[] = {
      {module, {"models.Net?", "state_dict"}},
      {by_source, {"models.Net", "code"}},
      {dict({text("model"), module}), {"model is models.Net?", "state_dict"}},
      {dict({text("a"), weight_, text("b"), call(name("os", "system"), {text("true")})}),
       {"b is os.system", "code"}},
      {dict({text("a"), call(name("torch._utils", "_rebuild_qtensor"), {})}),
       {"a", "_rebuild_qtensor", "dense"}},
      {dict({text("net"), dict({text("a"), weight_})}), {"only net", "state_dict"}},
      {weight_, {"state_dict"}},
      {number(7), {"state_dict"}}};
  for (const auto& [value, words] : refused)
    EXPECT_TRUE(mentions(error_of_object(value), words)) << words[0];
}

TEST_F(PytorchFile, RefusesTensorsBeyondTheirStorage) {
  const auto of = [](const std::string& type, int count) { return storage(type, "0", count); };
  const std::string rebuild = name("torch._utils", "_rebuild_tensor_v2"),
                    huge = "\x8a\x08" + bytes_of(std::int64_t{1} << 62);
  const std::string wrong[] = {
      tensor(of("FloatStorage", 6), 1, {2, 3}, {3, 1}), tensor(of("FloatStorage", 6), 7, {0}, {1}),
      tensor(of("FloatStorage", 6), 0, {2, 3}, {4, 1}),
      tensor(of("FloatStorage", 6), 0, {2, 2}, {2147483647, 1}),
      tensor(of("FloatStorage", 6), 0, {2147483647, 2147483647}, {0, 0}),
      tensor(of("FloatStorage", 6), 0, {7}, {0}), tensor(of("FloatStorage", 6), 0, {-1}, {1}),
      tensor(of("FloatStorage", 6), 0, {2}, {-1}), tensor(of("FloatStorage", 6), -1, {2}, {1}),
      tensor(of("FloatStorage", 6), 0, {2, 3}, {1}),
      tensor(of("FloatStorage", 6), 0, std::vector<int>(65, 1), std::vector<int>(65, 1)),
      tensor(of("FloatStorage", 7), 0, {7}, {1}), tensor(of("FloatStorage", -6), 0, {1}, {1}),
      tensor(storage("FloatStorage", "0", 6, part(3, 4)), 0, {1}, {1}),
      tensor(storage("FloatStorage", "0", 6, part(2, 3)), 0, {4}, {1}),
      call(rebuild, {six_, "N", numbers({1}), numbers({1})}),
      // The last number is at 4 * 2^62.
      call(rebuild, {six_, number(0), numbers({5}), tuple({huge})}),
      tensor(number(0), 0, {1}, {1})};
  for (const std::string& value : wrong)
    EXPECT_TRUE(mentions(error(new_file(dict({text("a"), value}), {counting<float>(6)})), {"a"}));
  for (const std::string& value : {tensor(of("DoubleStorage", 6), 0, {6}, {1}),
                                   tensor(storage("FloatStorage", "1", 6), 0, {6}, {1}),
                                   tensor(of("NoStorage", 6), 0, {6}, {1})})
    error(new_file(dict({text("a"), value}), {counting<float>(6)}));
  EXPECT_TRUE(mentions(error(new_file(dict({text("a"), weight_, text("_orig_mod.a"), weight_}),
                                      {counting<float>(6)})),
                       {"another", "_orig_mod.a"}));
}

TEST_F(PytorchFile, RefusesBombs) {
  const std::string many(2'100'000, 'N');
  const std::string pairs = "](" + [] {
    std::string all;
    for (int i = 0; i < 100'000; ++i) all += "NN\x86";
    return all;
  }() + "e";
  std::string dicts = pairs + "\x85q\1", objects = pairs + "q\1";
  for (int i = 0; i < 100; ++i) {
    dicts += fmt::format("{}h\1R", name("collections", "OrderedDict"));
    objects += fmt::format("{}h\1R", name("a", "b"));
  }
  const std::string bombs[] = {"(" + many + "t",
                               std::string(2'100'000, '('),
                               std::string(2'100'000, ']'),
                               dicts,
                               objects,
                               "\x8b\xff\xff\xff\xff",
                               "\x8d\xff\xff\xff\xff\xff\xff\xff\xff",
                               "X\xff\xff\xff\x7f",
                               "h\1",
                               "j\1\1\1\1",
                               "t",
                               "R",
                               "}(Nu",
                               "0",
                               "\x80\x09N",
                               "\xff",
                               name("a", std::string(100'000, 'b')),
                               "cabc",
                               "\x93",
                               "N\x93",
                               "Q",
                               "q\1",
                               "",
                               "(."};
  for (const std::string& bomb : bombs)
    EXPECT_TRUE(mentions(error_of_object(bomb), {"damaged"})) << bomb.substr(0, 20);
  // Values that contain themselves end.
  error_of_object("}q\1(" + text("state_dict") + "h\1u");
  error_of_object("]q\1h\1a");
  error_of_object("}Na");
  error_of_object(dict({text("a"), name("torch.nn.parameter", "Parameter") + "]q\1h\1a\x81"}));
}

TEST_F(PytorchFile, RefusesLongNamesAndFarNumbers) {
  std::string compiled;
  for (int i = 0; i < 300'000; ++i) compiled += "_orig_mod.";
  for (const std::string& value : {weight_, number(0)}) {
    const std::string found = error(new_file(dict({text(compiled), value}), {counting<float>(6)}));
    EXPECT_LT(found.size(), 1000);
    EXPECT_TRUE(mentions(found, {"_orig_mod."}));
  }
  const int far = 100'000;
  const std::string spread = tensor(storage("FloatStorage", "0", far), 0, {2}, {far - 1});
  EXPECT_TRUE(mentions(error(new_file(dict({text("a"), spread}), {counting<float>(far)})),
                       {"a", "spread over 400000 bytes"}));
}

TEST_F(PytorchFile, RefusesDamagedArchives) {
  const std::size_t end = new_.rfind("PK\5\6"), directory = new_.find("PK\1\2"),
                    second = new_.find("PK\3\4", 4), last = new_.rfind("PK\3\4");
  struct Case {
    std::size_t place;
    std::string change;
    std::vector<std::string_view> words;
    bool old = false;
  };
  for (const auto& [place, change, words, old] :
       std::vector<Case>{{end, "PK\5\7", {"end"}},
                         {end + 12, "\xff\xff\xff\xff", {"directory"}},  // its size
                         {end + 16, "\xff\xff\xff\xff", {"directory"}},  // and begin
                         {directory, "PK\1\1", {"directory"}},
                         {directory + 28, "\xff\xff", {"directory"}},
                         {directory + 10, "\x08", {"data.pkl"}},
                         {directory + 42, "\1", {"data.pkl"}},
                         {directory + 42, "\xff\xff\xff\x7f", {"outside"}},
                         {directory + 20, "\xff\xff\xff\x7f\xff\xff\xff\x7f", {"outside"}},
                         {new_.find("little"), "biggig", {"big-endian"}},
                         {old_.find("_endian") + 7, "\x89", {"big-endian"}, true},
                         {new_.find("a.weight"), "b", {"checksum"}},
                         {second, "PK\3\5", {"m/byteorder"}},
                         {last + 28, "\xff\xff", {"m/data/1", "outside"}}}) {
    std::string bytes = old ? old_ : new_;
    EXPECT_TRUE(mentions(error(bytes.replace(place, change.size(), change)), words)) << place;
  }
  EXPECT_TRUE(mentions(error(zip({{"m/data.pkl", "N."}, {"m/data.pkl", "N."}})), {"twice"}));
  EXPECT_TRUE(mentions(error(zip({{"m/version", "3"}})), {"data.pkl"}));
  // The last member begins within another one, or where it begins.
  const std::string inner = "PK\3\4" + std::string(28, '\0');
  std::string three = zip({{"m/data.pkl", pickle(dict({text("a"), weight_}))},
                           {"m/data/0", inner},
                           {"m/version", "3\n"}});
  EXPECT_EQ(read(three).read("a").size(), 6u);
  const std::size_t offset = three.rfind("m/version") - 4;
  for (const std::size_t place : {three.find(inner), std::size_t{0}}) {
    three.replace(offset, 4, bytes_of(static_cast<std::uint32_t>(place)));
    EXPECT_TRUE(mentions(error(three), {"overlap"})) << place;
  }
  std::string payload = new_;
  payload[new_.find(counting<float>(6)) + 5] ^= 1;
  const TensorFile file = read(payload);
  expect_error({file_.string(), "checksum"}, [&] { file.read("a.weight"); });
}

TEST_F(PytorchFile, ReadsArchivesOf64Bits) {
  const std::size_t end = new_.rfind("PK\5\6"), directory = new_.find("PK\1\2");
  const std::uint64_t size = number_at<std::uint32_t>(new_, directory + 24);
  for (const bool large : {true, false}) {
    // The first entry's offset, and its sizes if it is large, move to a field after another one.
    std::string fields = bytes_of(std::uint64_t{0}), bytes = new_;
    if (large) fields = bytes_of(size) + bytes_of(size) + fields;
    fields = fmt::format("\x09{}zz\x01{}{}{}{}", "\x00\x02\x00"s, '\0',
                         static_cast<char>(fields.size()), '\0', fields);
    if (large) bytes.replace(directory + 20, 8, 8, '\xff');
    bytes.replace(directory + 42, 4, 4, '\xff');
    bytes.replace(directory + 30, 1, 1, static_cast<char>(fields.size()));
    bytes.insert(directory + 46 + "m/data.pkl"s.size(), fields);
    const std::uint64_t record = end + fields.size(), length = record - directory;
    bytes = bytes.substr(0, record) + "PK\6\6" + std::string(36, '\0') + bytes_of(length) +
            bytes_of(std::uint64_t{directory}) + "PK\6\7" + std::string(4, '\0') +
            bytes_of(record) + std::string(4, '\0') + "PK\5\6" + std::string(4, '\0') +
            std::string(12, '\xff') + std::string(2, '\0');
    EXPECT_EQ(read(bytes).read("a.weight").size(), 6u);
    std::string changed = bytes;
    changed[record] = 'x';
    EXPECT_TRUE(mentions(error(changed), {"end"}));
    bytes.replace(bytes.rfind("PK\6\7") + 8, 8, 8, '\xff');
    EXPECT_TRUE(mentions(error(bytes), {"end"}));
  }
}

/// Reads a file that is perhaps damaged: its tensors if there is no error, or an error in one line.
void expect_tensors_or_error(const std::filesystem::path& file, bool checked) {
  try {
    const TensorFile tensors = read_pytorch(file);
    for (const auto& [name, tensor] : tensors.tensors()) {
      if (tensor.type == "I64") continue;
      const std::vector<float> values = tensors.read(name);
      EXPECT_TRUE(!checked || values == (std::vector<float>{0, 1, 2, 3, 4, 5}));
      EXPECT_LE(values.size(), 6u);
    }
  } catch (const Error& error) {
    EXPECT_TRUE(mentions(error.what(), {file.string()}));
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
  }
}

TEST_F(PytorchFile, SurvivesEveryCutAndChange) {
  std::mt19937 random(1);
  for (const std::string& bytes : {new_, old_}) {
    for (std::size_t size = 0; size < bytes.size(); ++size) error(bytes.substr(0, size));
    for (std::size_t place = 0; place < bytes.size(); ++place) {
      for (const int change : {1, 0xff, static_cast<int>(random() % 256)}) {
        std::string changed = bytes;
        changed[place] = static_cast<char>(changed[place] ^ change);
        write(changed);
        expect_tensors_or_error(file_, &bytes == &new_);
      }
    }
    for (int i = 0; i < 2000; ++i) {  // several changes, and with right checksums of the pickle
      std::string value = both_;
      for (int j = random() % 4; j >= 0; --j)
        value[random() % value.size()] = static_cast<char>(random());
      write(i % 2 ? new_file(value, {counting<float>(6), counting<std::int64_t>(1)})
                  : old_file(value, {counting<float>(6), counting<std::int64_t>(1)}, {4, 8}));
      expect_tensors_or_error(file_, false);
    }
  }
}

}  // namespace
}  // namespace lockstep
