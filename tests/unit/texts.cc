// Texts of the user: their words as Python's unicodedata finds them, the numbers of words, CSV
// files and folders, and what is refused in words.
#include <gtest/gtest.h>

#include "src/base/table.h"
#include "src/data/csv.h"
#include "src/data/dataset.h"
#include "src/data/normalisation.h"
#include "src/data/text/words.h"
#include "src/data/validation.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Strings = std::vector<std::string>;
using Numbers = std::vector<std::int32_t>;

std::string words_of(std::string_view text) {
  std::string joined;
  for_each_word(text, [&](std::string_view word) { joined += std::string(word) + "|"; });
  return joined;
}

TEST(Words, AreRunsOfLettersNumbersAndMarksOfAnyLanguage) {
  const std::pair<const char*, const char*> cases[] = {
      {"The U.S. rise: 3.5% (don't panic)", "the|u|s|rise|3|5|don|t|panic|"},
      {"GROẞ und Straße", "groß|und|straße|"},
      {"İstanbul IŞIK", "istanbul|işik|"},
      {"ЁЛКА №5, Съешь", "ёлка|5|съешь|"},
      {"ΟΔΟΣ Ἀθῆναι", "οδοσ|ἀθῆναι|"},
      {"ZAŻÓŁĆ Đường", "zażółć|đường|"},
      {"नमस्ते दुनिया! १२", "नमस्ते|दुनिया|१२|"},
      {"السلام عليكم، ١", "السلام|عليكم|١|"},
      {"我爱ABC。2008年", "我|爱|abc|2008|年|"},
      {"タワーに行く", "タ|ワ|ー|に|行|く|"},
      {"안녕 세계!", "안녕|세계|"},
      {"great 😀👍🏽 ★ 10/10", "great|10|10|"},
      {"ＡＢ１", "ａｂ１|"},
      {"", ""},
      {" \t\n-", ""}};
  for (const auto& [text, words] : cases) EXPECT_EQ(words_of(text), words) << text;
}

TEST(Words, NamesTheFirstByteThatIsNoUtf8) {
  EXPECT_EQ(invalid_utf8("a€😀\xF4\x8F\xBF\xBF"), std::string::npos);
  for (const char* bad : {"ab\xC0\xAF", "ab\xE0\x80\x80", "ab\xED\xA0\x80", "ab\xF4\x90\x80\x80",
                          "ab\xE9", "ab\xE2\x82", "ab\x80", "ab\xF0\x80\x80\x80", "ab\xFF"})
    EXPECT_EQ(invalid_utf8(bad), 2u) << bad;
}

TEST(Words, AnExcerptEndsBetweenCharacters) {
  EXPECT_EQ(excerpt_of("a€\nb", 4), "a€ b");
  EXPECT_EQ(excerpt_of("a€\nb", 2), "a€...");
  EXPECT_EQ(excerpt_of("a\x1b[1m", 9), "a?[1m");
}

TEST(Words, AreNumberedByFrequencyThenBytes) {
  const Vocabulary vocabulary = Vocabulary::of({"b B c", "a c b d"}, 3);
  EXPECT_EQ(vocabulary.words(), (Strings{"b", "c", "a"}));
  EXPECT_EQ(vocabulary.numbers("A b, d", 6), (Numbers{0, 0, 1, 6, 4, 2}));
  EXPECT_EQ(vocabulary.numbers("A b, d", 2), (Numbers{4, 2}));
  EXPECT_EQ(Vocabulary::from(vocabulary.text()).words(), vocabulary.words());
  expect_error({"no vocabulary"}, [] { Vocabulary::from(""); });
}

std::vector<Strings> rows_of(const std::string& text) {
  CsvRows rows(text, "x.csv");
  std::vector<Strings> all;
  for (Strings row; rows.next(row);) all.push_back(row);
  return all;
}

TEST(Csv, ReadsQuotesSeparatorsAndLineEnds) {
  using Rows = std::vector<Strings>;
  EXPECT_EQ(rows_of("a,b\r\n1,\"x, \"\"y\"\"\r\nz\"\n\n,\n"),
            (Rows{{"a", "b"}, {"1", "x, \"y\"\r\nz"}, {"", ""}}));
  EXPECT_EQ(rows_of("a;b\n1,5;2"), (Rows{{"a", "b"}, {"1,5", "2"}}));
  EXPECT_EQ(rows_of("a\tb\n5\" disk\t\"\""), (Rows{{"a", "b"}, {"5\" disk", ""}}));
  EXPECT_EQ(rows_of("\"a,b\";c"), (Rows{{"a,b", "c"}}));
  EXPECT_EQ(rows_of("a\tb\n\"Bad\" and \"x\"\tp\n\"a \"\"b\"\"\nc\"\tq\n\"end\tr"),
            (Rows{{"a", "b"}, {"\"Bad\" and \"x\"", "p"}, {"a \"b\"\nc", "q"}, {"\"end", "r"}}));
  EXPECT_EQ(rows_of(""), Rows{});
  expect_error({"x.csv", "line 2", "no end"}, [] { rows_of("a,b\n\"1,2\n3"); });
  expect_error({"x.csv", "line 3", "within a field"}, [] { rows_of("a,b\n\"1\n2\"3,4\n"); });
}

class OwnTexts : public testing::Test {
 protected:
  fs::path file(const std::string& text) const {
    put(folder_ / "x.csv", text);
    return folder_ / "x.csv";
  }
  void text(const std::string& name, const std::string& text) const {
    fs::create_directories((folder_ / name).parent_path());
    put(folder_ / name, text);
  }
  OpenedData open(const fs::path& path, double validation = 0) const {
    DataSource source{.place = {{path}}, .validation = validation};
    source.texts = {.words = 3, .length = 4};
    return open_data(find(datasets(), "texts"), source);
  }
  /// The test set as a run that was trained on `data` sees `path`.
  OpenedData tested(const OpenedData& data, const fs::path& path, double validation = 0) const {
    const DataSource source{.place = {{path}}, .validation = validation};
    return find(datasets(), "texts")
        .open_test(source, {.class_names = data.class_names,
                            .normalisation = "",
                            .format = to_text(data.train->format()),
                            .vocabulary = data.vocabulary,
                            .identity = data.identity});
  }
  static Numbers sample(const Dataset& set, std::int64_t index) {
    Numbers words(set.sample_shape().count());
    set.read(index, nullptr, words.data(), Type::i32);
    return words;
  }
  std::string refusal(const std::string& text, double validation = 0.5) const {
    return error_of([&] { open(file(text), validation); });
  }
  TemporaryDirectory folder_;
};

TEST_F(OwnTexts, OfACsvFileHaveParts) {
  const OpenedData data =
      open(file("\xEF\xBB\xBFSplit,Category,Content\r\ntrain,pos,\"good, good\"\r\n"
                "train,neg,bad\r\ntest, neg ,bad bad new\r\ndev,pos,\r\n"));
  EXPECT_EQ(data.class_names, (Strings{"neg", "pos"}));
  EXPECT_EQ(data.vocabulary, "good\nbad") << "of the training texts";
  ASSERT_EQ(data.train->size(), 2);
  ASSERT_EQ(data.test->size(), 1);
  ASSERT_EQ(data.validation->size(), 1);
  EXPECT_EQ(data.train->label(0), 1);
  EXPECT_EQ(data.test->label(0), 0);
  EXPECT_EQ(sample(*data.train, 0), (Numbers{0, 1, 4, 4}));
  EXPECT_EQ(sample(*data.test, 0), (Numbers{1, 5, 5, 2}));
  EXPECT_EQ(sample(*data.validation, 0), (Numbers{0, 0, 0, 1}));
  EXPECT_EQ(data.test->excerpt(0), "bad bad new");
  EXPECT_EQ(data.test->file(0), "x.csv:3");
}

TEST_F(OwnTexts, OfAFolderAreThoseOfTheCsvFile) {
  for (const char* name : {"d/train/pos/1.txt", "d/train/pos/deep/2", "d/test/pos/1.txt"})
    text(name, "good one");
  text("d/train/neg/a.txt", "bad one");
  text("d/train/neg/a.png", "\xFF");
  const OpenedData data = open(folder_ / "d");
  EXPECT_EQ(data.train->size(), 3);
  EXPECT_EQ(data.test->file(0), (folder_ / "d/test/pos/1.txt").string());
  EXPECT_TRUE(mentions(data.notes.at(0), {"1 file", ".txt"}));
  const OpenedData csv =
      open(file("text,label,part\nbad one,neg,train\ngood one,pos,train\ngood one,pos,train\ngood "
                "one,pos,test\n"));
  EXPECT_EQ(csv.identity, data.identity);
  EXPECT_EQ(csv.vocabulary, data.vocabulary);
  fs::create_directory(folder_ / "two");
  put(folder_ / "two/train_data.csv", "text,label\nbad one,neg\ngood one,pos\ngood one,pos\n");
  put(folder_ / "two/test.tsv", "label\ttext\npos\tgood one\n");
  EXPECT_EQ(open(folder_ / "two").identity, data.identity);
  fs::remove(folder_ / "two/test.tsv");
  for (const char* part : {"train", "test"})
    fs::rename(folder_ / "d" / part, folder_ / "d" / fmt::format("own-{}", part));
  EXPECT_EQ(open(folder_ / "d").identity, data.identity);
  put(folder_ / "two/test.jsonl", "{\"Label\": \"pos\", \"n\": [1], \"text\": \"good one\"}\n");
  EXPECT_EQ(open(folder_ / "two").identity, data.identity);
}

TEST_F(OwnTexts, OfOtherProgramsAreTheSame) {
  std::string known = "text,label\n", other = "label,x\n", fast;
  for (int i = 0; i < 8; ++i) {
    const char* label = i % 2 == 0 ? "pos" : "neg";
    known += fmt::format("good {},{}\n", i, label);
    other += fmt::format("{},good {}\n", label, i);
    fast += fmt::format("__label__{}\tgood {} \n\n", label, i);
  }
  const OpenedData data = open(file(known), 0.5);
  for (const std::string& text : {other, fast, "review,stars" + known.substr(10)})
    EXPECT_EQ(open(file(text), 0.5).identity, data.identity) << text;
}

TEST_F(OwnTexts, OfOldMacsAreTheSame) {
  std::string text = "text,label,part\na b,x,train\n\"c, c\",y,train\na b,y,test\n";
  std::string json;
  for (const char* label : {"x", "x", "y", "y"})
    json += fmt::format("{{\"text\": \"a b\", \"label\": \"{}\"}}\n", label);
  const OpenedData data = open(file(text));
  std::ranges::replace(text, '\n', '\r');
  EXPECT_EQ(open(file(text)).identity, data.identity);
  for (const char end : {'\n', '\r'}) {
    std::string lines = json;
    std::ranges::replace(lines, '\n', end);
    put(folder_ / "x.jsonl", lines);
    EXPECT_EQ(open(folder_ / "x.jsonl", 0.5).class_names.size(), 2u);
  }
}

TEST_F(OwnTexts, NoteTextsThatRepeat) {
  const auto notes = [&](const std::string& rows) {
    return fmt::format(
        "{}", fmt::join(open(file("text,label,part\na,x,train\nb,y,train\n" + rows)).notes, "; "));
  };
  EXPECT_EQ(notes("c,x,val\nd,x,test\n").find("samples are"), std::string::npos);
  const std::string all = notes("a,x,val\nc,y,val\na,y,test\nc,y,test\nb,y,train\n");
  EXPECT_TRUE(mentions(all, {"1 of 2 validation samples are training samples", "x.csv:3"})) << all;
  EXPECT_TRUE(mentions(all, {"1 of 2 test samples are training samples", "x.csv:5"})) << all;
  EXPECT_TRUE(mentions(all, {"1 of 2 test samples are validation samples", "x.csv:6"})) << all;
  EXPECT_TRUE(mentions(all, {"1 of 2 test samples have a copy in another class"})) << all;
}

TEST_F(OwnTexts, AreDividedAlikeInTrainingAndEvaluation) {
  std::string lines = "text,label\n";
  for (int i = 0; i < 60; ++i) lines += fmt::format("word{} all,{}\n", i, i % 2);
  const fs::path path = file(lines);
  const OpenedData data = open(path, 0.3);
  EXPECT_EQ(data.train->size() + data.validation->size(), 60);
  EXPECT_GT(data.validation->size(), 5);
  EXPECT_EQ(data.test, nullptr);
  const OpenedData seen = tested(data, path, 0.3);
  ASSERT_EQ(seen.test->size(), data.validation->size());
  for (std::int64_t i = 0; i < seen.test->size(); ++i)
    EXPECT_EQ(sample(*seen.test, i), sample(*data.validation, i));
  EXPECT_TRUE(mentions(seen.notes.at(0), {"of 60", "kept from training"}));
  put(path, lines + "other all,1\n");
  EXPECT_EQ(tested(data, path, 0.3).test->size(), 61) << "of another file all";
  put(path, "text,label\nx,2\n");
  expect_error({"2", "does not know", "0, 1"}, [&] { tested(data, path); });
}

TEST_F(OwnTexts, AreRefusedWithFileAndLine) {
  const std::string path = (folder_ / "x.csv").string();
  struct Case {
    std::string text;
    std::vector<std::string> words;
  };
  const Case cases[] = {
      {"", {"is empty", "text,label"}},
      {"a,b\nc,d\n", {"no column", "the text", "a, b", "content"}},
      {"text,kind,n\nc,d,1\n", {"no column", "the class", "category", "first line"}},
      {"__label__a good\nbad\n", {"line 2", "__label__CLASS"}},
      {"__label__a good __label__b\n", {"line 1"}},
      {"id,text\n1,good\n", {"no column with the class"}},
      {",text\n1,good\n", {"no column with the class"}},
      {"text,label\na,b\nc\n", {"line 3", "1 field", "quotes"}},
      {"text,label\na,\" \"\n", {"line 2", "no class"}},
      {"text,label\na,\"x\ny\"\n", {"line 2", "line end"}},
      {"text,label\na,x\n\"b,y\n", {"line 3", "no end"}},
      {"text,label,part\na,x,first\n", {"line 2", "\"first\"", "train, test"}},
      {"text,label\na\xE9,x\n", {"line 2", "0xE9", "iconv"}},
      {"text,label\ra\xE9,x\r", {"line 2", "0xE9"}},
      {"\xFF\xFEt\0", {"UTF-16", "iconv"}},
      {"text,label\n", {"no training texts"}},
      {"text,label,part\na,x,train\nb,x,train\nc,y,test\n", {"one class, x", "2 are needed"}},
      {"text,label,part\n.,x,train\n?,y,train\nc,y,test\n", {"no words"}},
      {"text,label,part\na,x,train\nb,y,train\nc,z,test\n", {"z", "does not know", "x, y"}}};
  for (const auto& [text, words] : cases) {
    const std::string error = refusal(text, text.find("part") == text.npos ? 0.5 : 0);
    EXPECT_TRUE(mentions(error, {path.c_str()})) << error;
    for (const std::string& word : words) EXPECT_TRUE(mentions(error, {word.c_str()})) << error;
  }
  EXPECT_TRUE(mentions(refusal("text,label\na,x\nb,y\n", 0), {"neither", "--validation 0.1"}));
  EXPECT_TRUE(
      mentions(refusal("text,label,part\na,x,train\nb,y,val\n", 0.5), {"--validation", "Omit"}));
  for (int i = 0; i < 9; ++i) text(fmt::format("only/train/a/{}.txt", i), "x");
  expect_error({"only", "one class, a"}, [&] { open(folder_ / "only", 0.5); });
  text("only/train/b/bad.txt", "x\n\xFF");
  expect_error({"only/train/b/bad.txt", "line 2"}, [&] { open(folder_ / "only"); });
}

}  // namespace
}  // namespace lockstep
