// Image files whose classes a table names: --labels, and metadata.csv or metadata.jsonl as of
// Hugging Face's imagefolder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/table.h"
#include "src/data/image/image_index.h"
#include "src/data/image/packed.h"
#include "src/data/normalisation.h"
#include "src/data/sets/images.h"
#include "src/data/validation.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"
#include "tests/support/image_bytes.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Strings = std::vector<std::string>;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

class ImageTable : public testing::Test {
 protected:
  /// A new image of a colour of its own.
  void image(const std::string& name) {
    put_image(folder_ / name, png_of(Bytes(8 * 8 * 3, static_cast<std::uint8_t>(++colour_)), 8, 8));
  }
  void images(const Strings& names) {
    for (const std::string& name : names) image(name);
  }
  fs::path table(const std::string& text, const std::string& name = "labels.csv") const {
    put(folder_ / name, text);
    return folder_ / name;
  }
  /// The images of `folder`, in the class folders or in `table`.
  DataSource source(const std::string& folder, const fs::path& table = {}, Split split = {}) const {
    DataSource source{.place = {{folder_ / folder}}, .validation = split};
    source.images.size = 8;
    source.place.labels = table;
    return source;
  }
  void refuse(const std::string& text, const std::vector<std::string_view>& words,
              Split split = 0.5) const {
    const fs::path file = table(text);
    const testing::ScopedTrace shown("", 0, text);
    expect_error(words, [&] { find_images(source("photos", file, split)); });
  }
  /// The images of `place` that evaluate sees after a run on `run`.
  static OpenedData tested(const DataSource& run, const DataSource& place) {
    const OpenedData data = open_folder(run);
    const SampleFormat& format = data.train->format();
    return find(datasets(), "folder")
        .open_test(place, {.class_names = data.class_names,
                           .normalisation = to_text(format.normalisation, format.size.channels),
                           .identity = data.identity,
                           .place = run.place});
  }
  static Strings files(const Dataset& set, const fs::path& folder) {
    Strings names;
    for (std::int64_t i = 0; i < set.size(); ++i)
      names.push_back(fs::path(set.file(i)).lexically_relative(folder).string());
    return names;
  }
  TemporaryDirectory folder_;
  int colour_ = 0;
};

const Strings kFolders{"train/cat/b.png",    "train/cat/a/x.png", "train/cat/c c.png",
                       "train/dog/q\"q.png", "train/dog/é.png",   "val/cat/1.png",
                       "val/dog/2.png"};
// The same files in another order, with a byte order mark, CR LF, quotes and semicolons.
constexpr const char* kTable =
    "\xEF\xBB\xBF"
    "Class; File_Name \r\ndog;val/dog/2.png\r\ncat;train/cat/a/x.png\r\n"
    "dog;\"train/dog/q\"\"q.png\"\r\n\r\ncat;train/cat/b.png\r\n cat ;\"train/cat/c c.png\"\r\n"
    "cat;./val//cat/1.png\r\ndog;train/dog/é.png";

TEST_F(ImageTable, OfClassFoldersIsTheSameDataSet) {
  for (const std::string& name : kFolders) image("photos/" + name);
  const fs::path labels = table(kTable);
  const OpenedData data = open_folder(source("photos")),
                   same = open_folder(source("photos", labels));
  EXPECT_EQ(same.identity, data.identity);
  EXPECT_EQ(same.class_names, data.class_names);
  for (const auto& [a, b] : {std::pair(data.train.get(), same.train.get()),
                             {data.validation.get(), same.validation.get()}}) {
    ASSERT_EQ(files(*a, folder_.path()), files(*b, folder_.path()));
    for (std::int64_t i = 0; i < a->size(); ++i) EXPECT_EQ(a->label(i), b->label(i));
  }
  EXPECT_THAT(same.train->describe(), HasSubstr("labelled by " + labels.string()));
  EXPECT_THAT(same.notes, ElementsAre());
}

TEST_F(ImageTable, IsDividedLikeClassFolders) {
  std::string text = "file,label\n";
  for (int i = 0; i < 30; ++i) {
    const std::string label = i % 3 == 0 ? "cat" : "dog";
    image(fmt::format("photos/{}/{}.png", label, i));
    text += fmt::format("{}/{}.png,{}\n", label, i, label);
  }
  const fs::path labels = table(text);
  Split fold;
  fold.read_fold("2/3");
  for (const Split& split : {Split(0.3), fold}) {
    const DataSource run = source("photos", labels, split);
    EXPECT_EQ(open_folder(run).identity, open_folder(source("photos", {}, split)).identity);
    EXPECT_EQ(files(*tested(run, run).test, folder_.path()),
              files(*open_folder(run).validation, folder_.path()));
    const fs::path half = table(text.substr(0, text.find("15.png") - 4) + "\n", "half.csv");
    const OpenedData other = tested(run, source("photos", half, split));
    EXPECT_EQ(other.test->size(), 15) << "another table of the folder is not that of the run";
    EXPECT_THAT(other.notes, Contains(HasSubstr("may contain images that it trained on")));
  }
  expect_error({"labels.csv", "neither validation nor test", "--validation", "part"},
               [&] { find_images(source("photos", labels)); });
}

TEST_F(ImageTable, NamesFilesAnywhereAndTheirParts) {
  images({"photos/a.png", "photos/b.png", "photos/c", "photos/.hidden.png", "photos/left.png",
          "beside.png", "other/d.png", "photos/test"});
  const fs::path labels = table(fmt::format(
      "label,image,split\nb,a.png,train\nA,b.png,training\nb,../beside.png,Train\nb,c,dev\n"
      "A,.hidden.png,train\nA,{0}/other/d.png,test\nA,{0}/photos/./test,test\n",
      folder_.path().string()));
  const OpenedData data = open_folder(source("photos", labels));
  EXPECT_EQ(data.class_names, (Strings{"A", "b"}));
  EXPECT_EQ(files(*data.train, folder_ / "photos"),
            (Strings{".hidden.png", "b.png", "a.png", "../beside.png"}));
  EXPECT_EQ(data.train->label(1), 0);
  EXPECT_EQ(data.train->label(2), 1);
  EXPECT_EQ(files(*data.validation, folder_ / "photos"), (Strings{"c"}));
  EXPECT_EQ(files(*data.test, folder_ / "photos"), (Strings{"test", "../other/d.png"}));
  EXPECT_EQ(data.train->file(1), (folder_ / "photos/b.png").string());
  EXPECT_EQ(data.test->file(1), (folder_ / "other/d.png").string());
  EXPECT_THAT(data.notes,
              ElementsAre(testing::AllOf(HasSubstr("1 image in"), HasSubstr("left out"))));
  std::vector<float> values(8 * 8 * 3);
  data.test->read(1, nullptr, values.data(), Type::f32);
  const Normalisation& standard = data.test->format().normalisation;
  EXPECT_NEAR(values[0] * standard.deviation[0] + standard.mean[0], 7, 1e-3) << "the seventh image";
}

TEST_F(ImageTable, IsPartOfTheIdentity) {
  images({"photos/a.png", "photos/b.png", "photos/c.png"});
  const std::string text = "file,label,part\na.png,x,train\nb.png,y,train\nc.png,x,test\n";
  const auto identity = [&](const std::string& rows) {
    return find_images(source("photos", table(rows))).identity();
  };
  const std::string before = identity(text);
  EXPECT_EQ(identity("part,file,label\ntest,c.png,x\ntrain,b.png,y\ntrain,a.png,x\n"), before);
  EXPECT_NE(identity("file,label,part\na.png,y,train\nb.png,x,train\nc.png,x,test\n"), before);
  EXPECT_NE(identity("file,label,part\na.png,x,train\nb.png,y,train\nc.png,y,test\n"), before);
  table(text);
  Strings notes;
  pack_images(source("photos", folder_ / "labels.csv"), folder_ / "photos.h5", notes);
  const OpenedData packed = open_packed(source("photos.h5"));
  const OpenedData data = open_folder(source("photos", folder_ / "labels.csv"));
  EXPECT_EQ(packed.identity.substr(0, packed.identity.find('\n')),
            data.identity.substr(0, data.identity.find('\n')));
  EXPECT_EQ(packed.train->label(1), 1);
}

TEST_F(ImageTable, OfEvaluationIsThatOfTheTestImages) {
  images({"photos/a.png", "photos/b.png", "photos/c.png", "photos/d.png"});
  const std::string train = "file,label,part\na.png,x,train\nb.png,y,train\n";
  const DataSource run = source("photos", table(train + "c.png,y,val\n"));
  const OpenedData validated = tested(run, run);
  EXPECT_EQ(files(*validated.test, folder_ / "photos"), Strings{"c.png"});
  EXPECT_EQ(validated.test->label(0), 1);
  const DataSource more =
      source("photos", table(train + "c.png,y,val\nd.png,y,test\n", "more.csv"));
  EXPECT_EQ(files(*tested(run, more).test, folder_ / "photos"), Strings{"d.png"});
  EXPECT_EQ(tested(run, source("photos", table("file,label\nd.png,y\n", "all.csv"))).test->label(0),
            1);
  expect_error({"other.csv", "only training images"}, [&] {
    tested(run, source("photos", table("file,label,part\nd.png,y,train\n", "other.csv")));
  });
  expect_error({"does not know", "z"},
               [&] { tested(run, source("photos", table("file,label\nd.png,z\n", "new.csv"))); });
}

// Hugging Face's imagefolder.
TEST_F(ImageTable, MayBeMetadataInTheFolder) {
  images({"photos/train/1.png", "photos/train/2.png", "photos/test/1.png"});
  table("file_name,label\n1.png,x\n2.png,y\n", "photos/train/metadata.csv");
  table("{\"file_name\": \"1.png\", \"boxes\": [[1]], \"label\": \"y\"}\r\n\r\n",
        "photos/test/metadata.jsonl");
  const OpenedData parts = open_folder(source("photos"));
  EXPECT_EQ(parts.class_names, (Strings{"x", "y"}));
  EXPECT_EQ(parts.test->label(0), 1);
  EXPECT_EQ(parts.validation, nullptr);
  EXPECT_EQ(files(*parts.test, folder_ / "photos"), Strings{"test/1.png"});
  EXPECT_THAT(parts.train->describe(),
              testing::AllOf(HasSubstr("train/metadata.csv"), HasSubstr("test/metadata.jsonl")));
  // In the folder itself, which counts before its parts. Numbers are names too.
  table(
      "{\"file_name\": \"train/1.png\", \"label\": 10}\n{\"label\": 9, \"file_name\": "
      "\"train/2.png\"}\n{\"file_name\": \"test/1.png\", \"label\": 9}",
      "photos/metadata.jsonl");
  const OpenedData root = open_folder(source("photos"));
  EXPECT_EQ(root.class_names, (Strings{"10", "9"}));
  EXPECT_EQ(root.test->label(0), 1);
  EXPECT_NE(root.identity, parts.identity);
  table("file,label\ntest/1.png,a\ntrain/1.png,a\ntrain/2.png,b\n");
  EXPECT_EQ(open_folder(source("photos", folder_ / "labels.csv")).class_names, (Strings{"a", "b"}));
}

TEST_F(ImageTable, MayBeMetadataBesideTheImages) {
  images({"photos/train/batch0/1.png", "photos/train/batch1/2.png", "photos/test/deep/1.png"});
  table("file_name,label\n1.png,x\n", "photos/train/batch0/metadata.csv");
  table("file_name,label\n2.png,y\n", "photos/train/batch1/metadata.csv");
  table("file_name,label\n1.png,y\n", "photos/test/deep/metadata.csv");
  for (const char* part : {"train", "test"})
    fs::rename(folder_ / "photos" / part, folder_ / "photos" / fmt::format("pets-{}", part));
  EXPECT_EQ(open_folder(source("photos")).test->size(), 1) << "of a part with a longer name";
  EXPECT_EQ(open_folder(source("photos")).train->size(), 2);
  for (const char* part : {"train", "test"})
    fs::rename(folder_ / "photos" / fmt::format("pets-{}", part), folder_ / "photos" / part);
  const OpenedData data = open_folder(source("photos"));
  EXPECT_EQ(data.class_names, (Strings{"x", "y"}));
  EXPECT_EQ(data.train->label(1), 1);
  EXPECT_EQ(files(*data.test, folder_ / "photos"), Strings{"test/deep/1.png"});
  std::string rows = "file_name,label\n";
  for (int i = 0; i < 12; ++i) {
    image(fmt::format("flat/all/{}.png", i));
    rows += fmt::format("{}.png,{}\n", i, i % 2);
  }
  table(rows, "flat/all/metadata.csv");
  EXPECT_EQ(find_images(source("flat", {}, 0.5)).classes, (Strings{"0", "1"})) << "without train/";
  images({"flat/other/1.png", "flat/other/2.png", "flat/other/3.png"});
  EXPECT_EQ(find_images(source("flat", {}, 0.5)).classes, (Strings{"all", "other"}))
      << "that of one class is none";
  table("file_name,label\n1.png,0\n", "flat/other/metadata.csv");
  EXPECT_EQ(find_images(source("flat", {}, 0.5)).classes, (Strings{"0", "1"}));
  image("flat/other/train/1.png");
  EXPECT_EQ(find_images(source("flat", {}, 0.5)).classes, (Strings{"all", "other"}))
      << "a data set within is none";
}

TEST_F(ImageTable, MayHaveOtherColumnsAndNoEndings) {
  images(
      {"photos/a.png", "photos/b.png", "photos/c.png", "photos/c", "photos/d.gif", "photos/d.png"});
  refuse("id,breed\na,x\nb,y\nd,y\n", {"1 of 3", "do not exist", "d ("});
  refuse("id,breed\na,x\nb,y\na.png,y\n", {"two classes of a.png"});
  const DataSource all = source("photos", table("file,label\na.png,x\nb.png,y\nc,y\n"), 0.5);
  const std::string identity = find_images(all).identity();
  for (const char* text : {"id,breed\na,x\nb,y\nc,y\n", "label,name\nx,a\ny,b.png\ny,c\n"}) {
    const DataSource same = source("photos", table(text), 0.5);
    EXPECT_EQ(find_images(same).identity(), identity) << text;
  }
}

TEST_F(ImageTable, IsNoMetadataWithoutClasses) {
  for (const std::string& name : kFolders) image("photos/" + name);
  const std::string identity = find_images(source("photos")).identity();
  for (const char* text : {"file_name,text\ntrain/cat/b.png,a cat\n", "label,width\ncat,3\n", ""}) {
    table(text, "photos/metadata.csv");
    EXPECT_EQ(find_images(source("photos")).identity(), identity) << text;
  }
  table("{\"file_name\": \"train/cat/b.png\", \"text\": \"a cat\"}\n", "photos/metadata.jsonl");
  EXPECT_EQ(find_images(source("photos")).identity(), identity);
}

TEST_F(ImageTable, IsRefusedWithFileAndLine) {
  images({"photos/a.png", "photos/b.png", "photos/c.png"});
  refuse("", {"labels.csv", "is empty", "file,label"});
  refuse("file,label\n", {"labels.csv", "no images"});
  refuse("name,label,n\na.png,x,1\n", {"labels.csv", "no column", "file_name", "name, label"});
  refuse("file,kind,n\na.png,x,1\n", {"no column with the class", "category"});
  refuse("file,label\na.png,x\nb.png\n", {"line 3", "1 field"});
  refuse("file,label\na.png,\n", {"line 2", "no class"});
  refuse("file,label\n,x\n", {"line 2", "no file"});
  refuse(std::string("file,label\na.png\0b,x\n", 21), {"line 2", "no file"});
  refuse("file,label,part\na.png,x,first\n", {"line 2", "\"first\""});
  refuse("file,label\na.png,x\nb.png,y\nc.png,x\n./a.png,y\n",
         {"labels.csv, line 2 and 5", "two classes of a.png: x and y"});
  refuse("file,label,part\na.png,x,train\na.png,x,test\n", {"line 2 and 3", "two parts", "test"});
  refuse("file,label\na.png,x\nb.png,y\nno.png,x\nc.png,y\n../photos,y\nphotos\\c.png,x\n",
         {"3 of 6", "do not exist", "no.png (", "labels.csv, line 4) is the first", "relative to"});
  refuse("file,label\na.png,x\nb.png,x\n", {"labels.csv", "1 class", "2 are needed"});
  refuse("file,label,part\na.png,x,train\nb.png,y,train\nc.png,z,test\n",
         {"labels.csv", "does not know", "z", "training part"});
  refuse("file,label,part\na.png,x,test\nb.png,y,test\n", {"labels.csv", "no training images"}, {});
  refuse("file,label,part\na.png,x,train\nb.png,y,train\nc.png,x,val\n",
         {"labels.csv", "validation images", "--validation 0.5"});
  table("{\"file\": \"a.png\", \"label\": \"x\"}\n[1]\n", "labels.jsonl");
  expect_error({"labels.jsonl", "line 2", "no JSON object"},
               [&] { find_images(source("photos", folder_ / "labels.jsonl")); });
  table("{\"file\": \"a.png\", \"label\": \"x\"}\n{\"file\": \"b.png\"}\n", "labels.jsonl");
  table("{\"file\": \"a.png\", \"label\": \"x\"}\n{\"file\": \"b.png\", \"text\": \"y\"}\n",
        "two.jsonl");
  expect_error({"two.jsonl", "no column with the class", "Line 2 names file, text"},
               [&] { find_images(source("photos", folder_ / "two.jsonl")); });
  expect_error({"labels.jsonl", "no column with the class", "Line 2 names file"},
               [&] { find_images(source("photos", folder_ / "labels.jsonl")); });
  table("{\"file\": \"a.png\", \"label\": null}\n", "labels.jsonl");
  expect_error({"labels.jsonl", "line 1", "no class"},
               [&] { find_images(source("photos", folder_ / "labels.jsonl")); });
  expect_error({"nowhere.csv"}, [&] { find_images(source("photos", folder_ / "nowhere.csv")); });
}

TEST_F(ImageTable, OfSeveralFoldersIsTheSameDataSet) {
  images({"one/train/cat/b.png", "one/train/cat/a/x.png", "one/train/dog/c.png",
          "one/val/cat/1.png", "two/training/cat/b.png", "two/training/dog/a.png",
          "two/training/emu/a.png", "two/valid/emu/1.png", "three/cat/b.png", "three/emu/z.png"});
  put(folder_ / "two/training/cat/notes.txt", "none");
  DataSource several = source("one");
  several.place.folders.insert(several.place.folders.end(),
                               {(folder_ / "two").string(), (folder_ / "one/../three").string()});
  const fs::path labels = table(
      "file,label,part\ntrain/cat/b.png,cat,train\ntrain/cat/a/x.png,cat,train\n"
      "train/dog/c.png,dog,train\nval/cat/1.png,cat,val\n../two/training/cat/b.png,cat,train\n"
      "../two/training/dog/a.png,dog,train\n../two/training/emu/a.png,emu,train\n"
      "../two/valid/emu/1.png,emu,val\n../three/cat/b.png,cat,train\n../three/emu/"
      "z.png,emu,train\n");
  const OpenedData data = open_folder(several), same = open_folder(source("one", labels));
  EXPECT_EQ(data.identity, same.identity);
  EXPECT_EQ(data.class_names, (Strings{"cat", "dog", "emu"}));
  EXPECT_EQ(data.train->size(), 8);
  EXPECT_EQ(data.validation->size(), 2);
  EXPECT_THAT(data.notes, ElementsAre());
  EXPECT_THAT(data.train->describe(), testing::AllOf(HasSubstr("one, "), HasSubstr("three, "),
                                                     HasSubstr("1 other file left out")));
  for (const auto& [a, b] : {std::pair(data.train.get(), same.train.get()),
                             {data.validation.get(), same.validation.get()}}) {
    ASSERT_EQ(files(*a, folder_.path()), files(*b, folder_.path()));
    for (std::int64_t i = 0; i < a->size(); ++i) EXPECT_EQ(a->label(i), b->label(i));
  }
  const OpenedData seen = tested(several, several);
  EXPECT_EQ(files(*seen.test, folder_.path()), files(*data.validation, folder_.path()));
}

TEST_F(ImageTable, OfSeveralFoldersIsDividedAndEvaluated) {
  for (int i = 0; i < 40; ++i)
    image(fmt::format("{}/{}/{}.png", i % 4 < 2 ? "one" : "two", i % 2 ? "cat" : "dog", i));
  DataSource several = source("one", {}, 0.3);
  several.place.folders.insert(several.place.folders.end(), {(folder_ / "two").string()});
  const OpenedData data = open_folder(several);
  EXPECT_EQ(data.validation->size(), 12);
  const auto evaluated = [&](const DataSource& place, const DataSource& run) {
    return find(datasets(), "folder")
        .open_test(place, {.class_names = data.class_names,
                           .normalisation = to_text(data.train->format().normalisation, 3),
                           .identity = data.identity,
                           .place = run.place});
  };
  const OpenedData seen = evaluated(several, several);
  EXPECT_EQ(files(*seen.test, folder_.path()), files(*data.validation, folder_.path()));
  const OpenedData other = evaluated(source("one", {}, 0.3), several);
  EXPECT_EQ(other.test->size(), 20) << "one of the folders is not the data of the run";
  EXPECT_THAT(other.notes, Contains(HasSubstr("may contain images that it trained on")));
}

TEST_F(ImageTable, OfSeveralFoldersIsChecked) {
  images({"one/train/cat/b.png", "one/train/dog/c.png", "one/val/cat/1.png",
          "inner/x/train/cat/1.png", "deep/table/1.png", "deep/table/cat/2.png",
          "new/val/emu/1.png"});
  table("file,label\n1.png,cat\n", "deep/table/metadata.csv");
  fs::create_directories(folder_ / "empty/train/cat");
  fs::create_directory_symlink(folder_ / "one", folder_ / "link");
  const auto refuse_with = [&](const std::string& more,
                               const std::vector<std::string_view>& words) {
    DataSource several = source("one");
    several.place.folders.insert(several.place.folders.end(), {(folder_ / more).string()});
    const testing::ScopedTrace shown("", 0, more);
    expect_error(words, [&] { open_data(find(datasets(), "folder"), several); });
  };
  refuse_with("none", {"none does not exist", "--data"});
  refuse_with("deep/table/1.png", {"1.png is a file"});
  refuse_with("one", {"one contains", "twice"});
  refuse_with("link", {"contains", "link", "twice"});
  refuse_with("one/train", {"one contains", "one/train"});
  refuse_with("", {"contains", "one", "twice"});
  refuse_with("empty", {"empty has no images"});
  refuse_with("inner", {"inner has no train/", "inner/x"});
  refuse_with("deep/table", {"metadata.csv", "one --data", "--labels"});
  refuse_with("new", {"does not know", "emu"});
}

TEST_F(ImageTable, MayRepeatARow) {
  images({"photos/a.png", "photos/b.png", "photos/c.png"});
  const ImageIndex index =
      find_images(source("photos", table("file,label\na.png,x\nb.png,y\na.png,x\nc.png,x\n"), 0.5));
  EXPECT_EQ(index.size(), 3);
  EXPECT_THAT(index.notes, Contains(HasSubstr("1 row of")));
}

}  // namespace
}  // namespace lockstep
