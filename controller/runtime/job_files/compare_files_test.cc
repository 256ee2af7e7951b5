#include "controller/runtime/job_files/compare_files.h"

#include <filesystem>
#include <string>

#include "controller/runtime/files/file_copy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"

namespace baton::controller {
namespace {

using ::testing::HasSubstr;

class CompareFilesTest : public ::testing::Test {
 protected:
  CompareFilesTest() {
    one_ = {"the job", folder_.path("one"), {}};
    other_ = {"the replay", folder_.path("other"), {}};
    for (ComparedSide* side : {&one_, &other_}) {
      Save("actor/weights", Large(), side);
      Save("optimizer", "moments", side);
    }
  }
  static std::string Large() { return std::string((size_t{2} << 20) + 5, 'w'); }

  void Save(const std::string& path, const std::string& bytes, ComparedSide* side) {
    folder_.Write((side->folder / path).string(), bytes);
    v1::FileHash file;
    file.set_path(path);
    file.set_size_bytes(static_cast<int64_t>(bytes.size()));
    file.set_xxh3(*HashOfFile(side->folder / path));
    for (v1::FileHash& known : side->files) {
      if (known.path() == path) return void(known = file);
    }
    side->files.push_back(file);
  }
  std::string Difference() {
    const auto compared = CompareFiles(one_, other_);
    EXPECT_TRUE(compared.ok()) << compared.status();
    return compared.ok() ? compared->difference : "";
  }

  const TestFolder folder_;
  ComparedSide one_, other_;
};

TEST_F(CompareFilesTest, SaysWhatItCompared) {
  const auto compared = CompareFiles(one_, other_);
  ASSERT_TRUE(compared.ok()) << compared.status();
  EXPECT_EQ(compared->difference, "");
  ASSERT_EQ(compared->same.size(), 2u);
  EXPECT_EQ(compared->same[0].path(), "actor/weights");
  EXPECT_EQ(compared->same[0].size_bytes(), (2 << 20) + 5);
  EXPECT_EQ(compared->same[0].xxh3(), one_.files[0].xxh3());
  EXPECT_EQ(CompareFiles(one_, other_, [] { return true; }).status().code(),
            absl::StatusCode::kCancelled);
}

TEST_F(CompareFilesTest, NamesTheFirstByteThatDiffers) {
  std::string bytes = Large();
  bytes[(size_t{1} << 20) + 3] = 'x';
  Save("actor/weights", bytes, &other_);
  EXPECT_THAT(Difference(), HasSubstr("actor/weights: byte 1048579 differs"));
  Save("actor/weights", Large() + "x", &other_);
  EXPECT_THAT(Difference(), HasSubstr("actor/weights: byte 2097157 differs"));
}

// The hashes that were noted when the files were saved still agree.
TEST_F(CompareFilesTest, FilesThatAreDamagedOrGoneAreNotEqual) {
  for (ComparedSide* side : {&one_, &other_}) {
    const std::string path = (side->folder / "optimizer").string();
    folder_.Write(path, "momentS");
    EXPECT_THAT(Difference(), HasSubstr(side->name + "'s file is damaged"));
    std::filesystem::remove(path);
    EXPECT_THAT(Difference(), HasSubstr(side->name + "'s file is gone"));
    folder_.Write(path, "moments");
  }
  // The same damage on both sides.
  for (ComparedSide* side : {&one_, &other_}) {
    folder_.Write((side->folder / "optimizer").string(), "momentS");
  }
  EXPECT_THAT(Difference(), HasSubstr("is damaged"));
}

TEST_F(CompareFilesTest, AFileOfOneSideAloneIsNamed) {
  Save("critic", "c", &other_);
  EXPECT_EQ(Difference(), "critic: the job has no such file");
  Save("critic", "c", &one_);
  EXPECT_EQ(Difference(), "");
  Save("more", "m", &one_);
  EXPECT_EQ(Difference(), "more: the replay has no such file");
}

}  // namespace
}  // namespace baton::controller
