// Reader and writer of safetensors, and the atomic file beneath.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <random>

#include "absl/strings/str_cat.h"
#include "relay/weights/file_io.h"
#include "relay/weights/safetensors_reader.h"
#include "relay/weights/safetensors_writer.h"
#include "sdk/common/base/test_folder.h"
#include "sdk/common/base/test_syncs.h"

namespace baton::relay {
namespace {

using testing::HasSubstr;

std::vector<uint8_t> Bytes(const std::string& json, const std::string& data) {
  std::vector<uint8_t> file(8);
  for (int i = 0; i < 8; ++i) file[i] = static_cast<uint8_t>(json.size() >> (8 * i));
  file.insert(file.end(), json.begin(), json.end());
  file.insert(file.end(), data.begin(), data.end());
  return file;
}

std::string ErrorOf(const std::vector<uint8_t>& file) {
  const auto view = SafetensorsView::Parse(file);
  EXPECT_EQ(view.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(view.status().message());
}
std::string ErrorOf(const std::string& json, const std::string& data) {
  return ErrorOf(Bytes(json, data));
}

TEST(SafetensorsReader, ReadsAFileWrittenByHand) {
  const std::vector<uint8_t> file = Bytes(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"U8","shape":[3],"data_offsets":[4,7]},)"
      R"("a":{"dtype":"I16","shape":[2,1],"data_offsets":[0,4]},)"
      R"("e":{"dtype":"F32","shape":[0,9],"data_offsets":[7,7]}}   )",
      std::string("\x01\x00\x02\x00xyz", 7));
  const auto view = SafetensorsView::Parse(file);
  ASSERT_TRUE(view.ok()) << view.status();
  ASSERT_EQ(view->entries().size(), 3u);
  EXPECT_EQ(view->entries()[0].name, "a");
  EXPECT_EQ(view->metadata().at("format"), "pt");
  const TensorEntry* b = view->Find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->dtype, DType::kU8);
  EXPECT_EQ(std::string(view->Data(*b).begin(), view->Data(*b).end()), "xyz");
  EXPECT_EQ(view->Find("a")->shape, (std::vector<int64_t>{2, 1}));
  EXPECT_TRUE(view->Data(*view->Find("e")).empty());
  EXPECT_EQ(view->Find("c"), nullptr);
}

TEST(SafetensorsReader, EmptyHeaderIsAFileWithoutTensors) {
  const auto view = SafetensorsView::Parse(Bytes("{}", ""));
  ASSERT_TRUE(view.ok());
  EXPECT_TRUE(view->entries().empty());
}

TEST(SafetensorsReader, LengthIsChecked) {
  EXPECT_THAT(ErrorOf(std::vector<uint8_t>{}), HasSubstr("0 bytes, at least 8"));
  EXPECT_THAT(ErrorOf(std::vector<uint8_t>{1, 0, 0, 0, 0, 0, 0, 0}), HasSubstr("truncated"));
  EXPECT_THAT(ErrorOf(std::vector<uint8_t>(64, 0xff)), HasSubstr("above the limit of 100000000"));
  std::vector<uint8_t> over(64, 0);  // 100,000,001, one above the limit.
  for (int i = 0; i < 8; ++i) over[i] = static_cast<uint8_t>(uint64_t{100'000'001} >> (8 * i));
  EXPECT_THAT(ErrorOf(over), HasSubstr("above the limit"));
}

TEST(SafetensorsReader, HeaderIsChecked) {
  const auto tensor = [](const std::string& fields) { return "{\"w\":{" + fields + "}}"; };
  struct Case {
    std::string json, data, message;
  };
  const Case cases[] = {
      {" {}", "", "does not start with '{'"},
      {"{", "", "not JSON"},
      {"{\"a\":\"\xff\"}", "", "not JSON"},
      {"{\"w\":3}", "", "a number is not expected"},
      {"{\"w\":[]}", "", "an array is not expected"},
      {"{\"w\":{\"dtype\":{}}}", "", "an object is not expected"},
      {tensor(R"("dtype":"F32","shape":[1])"), "0000", "must all be there"},
      {tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1)"), "0000", "unknown key"},
      {tensor(R"("dtype":"F31","shape":[1],"data_offsets":[0,4])"), "0000", "dtype \"F31\""},
      {tensor("\"dtype\":\"F\xc3\xa9\",\"shape\":[1],\"data_offsets\":[0,4]"), "0000",
       "dtype \"F\\xc3\\xa9\""},
      {tensor(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), "0000", "negative"},
      {tensor(R"("dtype":"F32","shape":[1.5],"data_offsets":[0,4])"), "0000", "fractional"},
      {tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551615])"), "0000",
       "63 bits"},
      {tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,99999999999999999999])"), "0000",
       "fractional or too large"},
      {tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,8])"), "0000", "two numbers"},
      {tensor(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), "0000", "not within"},
      {tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,8])"), "0000", "not within the 4"},
      {tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), "0000", "needs 8 bytes"},
      {tensor(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4])"), "0000",
       "more bytes than 63 bits"},
      {tensor(R"("dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4])"), "0000",
       "\"dtype\" is there twice"},
      {R"({"__metadata__":{"a":1}})", "", "a number is not expected"},
      {R"({"__metadata__":{"a":{}}})", "", "an object is not expected"},
  };
  for (const Case& c : cases) EXPECT_THAT(ErrorOf(c.json, c.data), HasSubstr(c.message)) << c.json;
}

TEST(SafetensorsReader, TensorsMustCoverTheDataExactly) {
  const auto two = [](const std::string& a, const std::string& b) {
    return R"({"a":{"dtype":"U8","shape":[2],"data_offsets":)" + a +
           R"(},"b":{"dtype":"U8","shape":[2],"data_offsets":)" + b + "}}";
  };
  EXPECT_TRUE(SafetensorsView::Parse(Bytes(two("[0,2]", "[2,4]"), "wxyz")).ok());
  EXPECT_THAT(ErrorOf(two("[0,2]", "[1,3]"), "xyz"), HasSubstr("\"b\" overlaps"));
  EXPECT_THAT(ErrorOf(two("[0,2]", "[3,5]"), "vwxyz"), HasSubstr("bytes 2 to 3"));
  EXPECT_THAT(ErrorOf(two("[1,3]", "[3,5]"), "vwxyz"), HasSubstr("bytes 0 to 1"));
  EXPECT_THAT(ErrorOf(two("[0,2]", "[2,4]"), "vwxyz"), HasSubstr("bytes 4 to 5"));
}

TEST(SafetensorsReader, DuplicateNamesAreAnError) {
  const std::string w = R"("w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  EXPECT_THAT(ErrorOf("{" + w + "," + w + "}", ""), HasSubstr("\"w\" is there twice"));
}

TEST(SafetensorsReader, DeepNestingIsRefusedWithoutRecursion) {
  const std::string deep(1 << 20, '[');
  EXPECT_THAT(ErrorOf("{\"w\":" + deep, ""), HasSubstr("an array is not expected"));
}

TEST(SafetensorsWriter, ReadsBackEqual) {
  std::mt19937 random(3);
  const std::vector<TensorSpec> specs = {{"model.b", DType::kF16, {3, 2}},
                                         {"scalar", DType::kF64, {}},
                                         {"model.a \"quoted\" \xc3\xa9", DType::kF32, {5}},
                                         {"empty", DType::kI64, {0, 4}},
                                         {"flag", DType::kBool, {3}}};
  const auto layout = SafetensorsLayout::Create(specs, {{"k", "v\n"}});
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->data_offset() % 8, 0);
  EXPECT_EQ(layout->file_size(), layout->data_offset() + 12 + 8 + 20 + 0 + 3);
  std::vector<uint8_t> file(static_cast<size_t>(layout->file_size()));
  for (uint8_t& byte : file) byte = static_cast<uint8_t>(random());
  const std::vector<uint8_t> filled = file;
  layout->WriteHeader(absl::MakeSpan(file));

  const auto view = SafetensorsView::Parse(file);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->metadata().at("k"), "v\n");
  ASSERT_EQ(view->entries().size(), specs.size());
  for (const TensorSpec& spec : specs) {
    const TensorEntry* entry = view->Find(spec.name);
    ASSERT_NE(entry, nullptr) << spec.name;
    EXPECT_EQ(entry->dtype, spec.dtype);
    EXPECT_EQ(entry->shape, spec.shape);
    EXPECT_EQ(entry->begin % SizeBytes(spec.dtype), 0) << "not aligned";
    const absl::Span<uint8_t> slot = layout->Slot(absl::MakeSpan(file), *layout->Find(spec.name));
    EXPECT_EQ(slot.data(), view->Data(*entry).data());
    EXPECT_EQ(slot.size(), view->Data(*entry).size());
  }
}

TEST(SafetensorsWriter, RefusesWhatCannotBeRead) {
  const auto code = [](std::vector<TensorSpec> specs) {
    return SafetensorsLayout::Create(std::move(specs)).status().code();
  };
  EXPECT_EQ(code({{"a", DType::kU8, {1}}, {"a", DType::kF32, {1}}}),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{"__metadata__", DType::kU8, {1}}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{"\xff", DType::kU8, {1}}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{"a", DType::kU8, {-1}}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{"a", DType::kU8, {int64_t{1} << 62}}, {"b", DType::kU8, {int64_t{1} << 62}}}),
            absl::StatusCode::kInvalidArgument);
}

TEST(SafetensorsFile, WrittenAndMapped) {
  const TestFolder folder;
  const std::string path = folder.path("model.safetensors");
  const auto layout = SafetensorsLayout::Create({{"a", DType::kU8, {4}}, {"b", DType::kU16, {3}}});
  ASSERT_TRUE(layout.ok());
  const auto fill = [](const TensorEntry& entry, absl::Span<uint8_t> out) {
    std::fill(out.begin(), out.end(), static_cast<uint8_t>(entry.name[0]));
    return absl::OkStatus();
  };
  ASSERT_TRUE(WriteSafetensorsFile(path, *layout, fill).ok());
  const auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  const SafetensorsView& view = (*file)->view();
  EXPECT_EQ(view.Data(*view.Find("a"))[3], 'a');
  EXPECT_EQ(view.Data(*view.Find("b")).size(), 6u);
  EXPECT_EQ(view.Data(*view.Find("b"))[5], 'b');
}

TEST(SafetensorsFile, ErrorsNameThePath) {
  const TestFolder folder;
  const auto missing = SafetensorsFile::Open(folder.path("none"));
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr(folder.path("none")));
  ASSERT_TRUE(WriteFileAtomically(folder.path("short"), "abc").ok());
  const auto truncated = SafetensorsFile::Open(folder.path("short"));
  EXPECT_EQ(truncated.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(truncated.status().message()),
              HasSubstr(folder.path("short") + ": not a"));
  EXPECT_EQ(SafetensorsFile::Open(folder.path()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(SafetensorsFile, AFailedWriteLeavesNothing) {
  const TestFolder folder;
  const auto layout = SafetensorsLayout::Create({{"a", DType::kU8, {4}}});
  const absl::Status status = WriteSafetensorsFile(
      folder.path("m"), *layout,
      [](const TensorEntry&, absl::Span<uint8_t>) { return absl::DataLossError("gone"); });
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(AtomicFile, ReplacesOnlyAtCommit) {
  const TestFolder folder;
  const std::string path = folder.path("f");
  ASSERT_TRUE(WriteFileAtomically(path, "old").ok());
  auto file = AtomicFile::Create(path);
  ASSERT_TRUE(file.ok());
  const std::vector<uint8_t> text = {'n', 'e', 'w'};
  ASSERT_TRUE(file->Append(text).ok());
  EXPECT_EQ(*ReadFile(path), "old");
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_EQ(*ReadFile(path), "new");
  EXPECT_EQ(file->Append(text).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReadFile(path, 2).status().code(), absl::StatusCode::kInvalidArgument);
}

// A power cut after Commit leaves the new content: the file is synced before it has its name, and
// its folder after that.
TEST(AtomicFile, SyncsTheFileThenItsName) {
  const TestFolder made;
  const std::string folder = std::filesystem::canonical(made.path()).string(), path = folder + "/f";
  TestSyncs::Take();
  ASSERT_TRUE(WriteFileAtomically(path, "new").ok());
  EXPECT_THAT(TestSyncs::Take(), testing::ElementsAre(HasSubstr(path + ".tmp-"), folder));
}

TEST(AtomicFile, NeedsADirectory) {
  const TestFolder folder;
  const auto file = AtomicFile::Create(folder.path("none/f"));
  EXPECT_EQ(file.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(file.status().message()), HasSubstr("/none/f"));
}

}  // namespace
}  // namespace baton::relay
