#include "controller/runtime/payloads/batch_part.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

void AddInts(v1::Trajectory& trajectory, const char* name, size_t values) {
  v1::Column* column = trajectory.add_columns();
  column->set_name(name);
  column->set_dtype(v1::DATA_TYPE_INT32);
  column->set_data(std::string(4 * values, '\1'));
}

void AddSegment(v1::Trajectory& trajectory, v1::Segment::Kind kind, uint32_t begin, uint32_t end) {
  v1::Segment* segment = trajectory.add_segments();
  segment->set_kind(kind);
  segment->set_begin(begin);
  segment->set_end(end);
}

// A prompt of two tokens. The policy samples all of `tokens` but the last, which a tool wrote.
BatchEntry Sampled(const std::string& id, uint32_t tokens) {
  v1::Trajectory payload;
  payload.set_trajectory_id(id);
  payload.set_purpose(v1::PURPOSE_TRAIN);
  payload.set_response_text("words");
  AddInts(payload, "prompt_tokens", 2);
  AddInts(payload, "tokens", tokens);
  AddSegment(payload, v1::Segment::KIND_PROMPT, 0, 2);
  AddSegment(payload, v1::Segment::KIND_MODEL, 2, 1 + tokens);
  AddSegment(payload, v1::Segment::KIND_ENVIRONMENT, 1 + tokens, 2 + tokens);
  BatchEntry entry;
  entry.payload = std::make_shared<const v1::Trajectory>(std::move(payload));
  v1::Trajectory added;
  AddInts(added, "advantages", 1);
  added.set_step(4);
  (*added.mutable_scores())["reward"] = 0.5;
  (*added.mutable_scores())["length"] = 3;
  entry.added = std::make_shared<const PackedPayload>(added);
  return entry;
}

BatchEntry TextAlone(const std::string& id) {
  v1::Trajectory payload;
  payload.set_trajectory_id(id);
  payload.set_prompt_text("count: ");
  payload.set_response_text("one");
  BatchEntry entry;
  entry.payload = std::make_shared<const v1::Trajectory>(std::move(payload));
  return entry;
}

std::shared_ptr<const BatchEntries> Batch() {
  return std::make_shared<const BatchEntries>(
      BatchEntries{Sampled("a", 3), Sampled("b", 9), Sampled("c", 5), TextAlone("d")});
}

std::vector<std::string> Ids(const absl::StatusOr<BatchPart>& part) {
  std::vector<std::string> ids;
  if (!part.ok()) return {ErrorReason(part.status())};
  for (size_t i = 0; i < part->size(); ++i) ids.push_back(part->At(i)->trajectory_id());
  return ids;
}

std::vector<std::string> IdsOfRange(int begin, int end) {
  v1::FetchBatchRequest request;
  request.set_begin(begin);
  request.set_end(end);
  return Ids(BatchPart::Of(Batch(), request));
}

v1::FetchBatchRequest Rows(const std::vector<int>& rows) {
  v1::FetchBatchRequest request;
  for (const int row : rows) request.add_rows(row);
  return request;
}

std::vector<std::string> IdsOfRows(const std::vector<int>& rows) {
  return Ids(BatchPart::Of(Batch(), Rows(rows)));
}

TEST(BatchPartTest, AWorkerThatNamesNothingGetsAllOfEverything) {
  const auto part = BatchPart::Of(Batch(), {});
  EXPECT_THAT(Ids(part), ElementsAre("a", "b", "c", "d"));
  const v1::Trajectory first = *part->At(0);
  EXPECT_EQ(first.response_text(), "words");
  EXPECT_EQ(first.step(), 4u);
  EXPECT_EQ(first.scores().at("length"), 3);
  ASSERT_EQ(first.columns_size(), 3);
  EXPECT_EQ(first.columns(2).name(), "advantages") << "what the batch adds comes last";
}

TEST(BatchPartTest, RangesOfTheBatch) {
  EXPECT_THAT(IdsOfRange(1, 3), ElementsAre("b", "c"));
  EXPECT_THAT(IdsOfRange(2, 0), ElementsAre("c", "d"));
  EXPECT_THAT(IdsOfRange(2, 2), IsEmpty());
  for (const auto& [begin, end] : {std::pair{-1, 2}, {3, 2}, {0, 5}, {5, 0}}) {
    EXPECT_THAT(IdsOfRange(begin, end), ElementsAre("BATCH_RANGE")) << begin << " " << end;
  }
}

TEST(BatchPartTest, RowsOfAShare) {
  EXPECT_THAT(IdsOfRows({1, 3}), ElementsAre("b", "d"));
  EXPECT_THAT(IdsOfRows({0}), ElementsAre("a"));
  for (const auto& rows : {std::vector<int>{4}, {-1}, {0, 4}, {2, 1}, {1, 1}}) {
    EXPECT_THAT(IdsOfRows(rows), ElementsAre("BATCH_RANGE")) << rows.back();
  }
  v1::FetchBatchRequest both = Rows({1});
  both.set_end(2);
  EXPECT_THAT(Ids(BatchPart::Of(Batch(), both)), ElementsAre("BATCH_RANGE"));
}

TEST(BatchPartTest, AHeaderHasLengthsMaskAndSignAlone) {
  v1::FetchBatchRequest request;
  request.set_view(v1::FetchBatchRequest::VIEW_HEADERS);
  const auto part = BatchPart::Of(Batch(), request);
  EXPECT_THAT(Ids(part), ElementsAre("a", "b", "c", "d"));
  const v1::Trajectory header = *part->At(1);
  EXPECT_EQ(header.columns_size(), 0);
  EXPECT_EQ(header.response_text(), "");
  EXPECT_EQ(header.purpose(), v1::PURPOSE_TRAIN);
  ASSERT_EQ(header.segments_size(), 3);
  EXPECT_EQ(header.segments(2).kind(), v1::Segment::KIND_ENVIRONMENT);
  EXPECT_EQ(header.segments(2).end(), 11u);
  ASSERT_EQ(header.scores_size(), 1);
  EXPECT_EQ(header.scores().at("reward"), 0.5);
  EXPECT_EQ(part->At(3)->response_text(), "one") << "a text comes whole";
}

TEST(BatchPartTest, APayloadWithoutSegmentsHasNoHeader) {
  BatchEntry old = Sampled("old", 3);
  v1::Trajectory payload = *old.payload;
  payload.clear_segments();
  old.payload = std::make_shared<const v1::Trajectory>(payload);
  EXPECT_FALSE(old.Header().has_value());
  AddSegment(payload, v1::Segment::KIND_PROMPT, 0, 2);
  old.payload = std::make_shared<const v1::Trajectory>(payload);
  EXPECT_FALSE(old.Header().has_value()) << "they do not cover the response";
  v1::FetchBatchRequest request;
  request.set_view(v1::FetchBatchRequest::VIEW_HEADERS);
  const auto part = BatchPart::Of(std::make_shared<const BatchEntries>(BatchEntries{old}), request);
  EXPECT_EQ(part->At(0)->columns_size(), 3) << "it comes whole";
}

// A payload that the job's cache has dropped is read from the experience log, and is the same. A
// header needs no read.
TEST(BatchPartTest, ReadsPayloadsThatLeftMemoryFromTheLog) {
  BatchEntry entry = Sampled("a", 3);
  const v1::Trajectory logged = *entry.payload;
  const std::string whole = entry.Whole().DebugString(), header = entry.Header()->DebugString();
  auto cached = std::make_shared<const PackedPayload>(logged);
  entry.payload = nullptr;
  entry.cached = cached;
  entry.header = std::make_shared<const PackedPayload>(*HeaderOf(logged));
  entry.logged.id = 7;
  int reads = 0;
  BatchSource reader;
  reader.read = [&](const LoggedPayload& payload) -> absl::StatusOr<v1::Trajectory> {
    EXPECT_EQ(payload.id, 7u);
    if (++reads > 1) return absl::DataLossError("damaged");
    return logged;
  };
  reader.post = [](const std::function<void()>& work) { work(); };
  const auto batch = std::make_shared<const BatchEntries>(BatchEntries{entry});
  const auto part = BatchPart::Of(batch, {}, reader);
  EXPECT_EQ(part->TryAt(0)->DebugString(), whole);
  cached = nullptr;
  EXPECT_FALSE(part->TryAt(0).has_value());
  EXPECT_EQ(part->At(0)->DebugString(), whole);
  EXPECT_TRUE(absl::IsDataLoss(part->At(0).status()));
  v1::FetchBatchRequest headers;
  headers.set_view(v1::FetchBatchRequest::VIEW_HEADERS);
  EXPECT_EQ(BatchPart::Of(batch, headers, reader)->TryAt(0)->DebugString(), header);
  EXPECT_EQ(reads, 2);
}

TEST(BatchPartTest, ThePartOutlivesTheBatchOfTheJob) {
  auto batch = Batch();
  const auto part = BatchPart::Of(batch, Rows({2}));
  batch = nullptr;
  EXPECT_THAT(Ids(part), ElementsAre("c"));
}

}  // namespace
}  // namespace baton::controller
