// Streams of ExperienceService: batches and histories.
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "baton/v1/experience_service.grpc.pb.h"
#include "controller/runtime/payloads/history_part.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/rpc/error.h"
#include "tests/support/controller/api_server.h"

namespace baton::api {
namespace {

using ::testing::_;

TEST_F(ApiServerTest, ABatchArrivesWholeAndInOrder) {
  auto experience = v1::ExperienceService::NewStub(channel_);
  EXPECT_CALL(controller_, FetchBatch(_, _))
      .WillOnce(
          [](v1::FetchBatchRequest request, controller::Callback<controller::BatchPart> done) {
            EXPECT_EQ(request.batch_id(), "batch");
            std::vector<v1::Trajectory> batch(50);
            for (size_t i = 0; i < batch.size(); ++i) {
              batch[i].set_sample_index(static_cast<uint32_t>(i));
              batch[i].set_response_text(std::string(100'000, 'x'));
            }
            done(controller::PartOf(std::move(batch)));
          });
  grpc::ClientContext context;
  Deadline(context);
  v1::FetchBatchRequest request;
  request.set_batch_id("batch");
  auto reader = experience->FetchBatch(&context, request);
  v1::FetchBatchResponse response;
  uint32_t next = 0;
  int messages = 0;
  while (reader->Read(&response)) {
    ++messages;
    for (const v1::Trajectory& t : response.trajectories()) EXPECT_EQ(t.sample_index(), next++);
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(next, 50u);
  EXPECT_GE(messages, 5);  // 5 MB, about 1 MB a message
}

// Responses of 100,000 tokens that lie in a log: one in three cannot be read.
TEST_F(ApiServerTest, AHistoryArrivesPieceByPieceWithoutWhatIsLost) {
  controller::HistoryPart::Prompt prompt;
  for (uint64_t id = 0; id < 9; ++id) prompt.own.push_back({id, id, 50 + id, 100'000, {1, id, 9}});
  std::atomic<int> pieces{0};
  controller::BatchSource log;
  log.read = [](const controller::LoggedPayload& logged) -> absl::StatusOr<v1::Trajectory> {
    if (logged.id % 3 == 0) return absl::DataLossError("it is damaged");
    v1::Trajectory payload;
    for (const char* name : {"prompt_tokens", "tokens"}) {
      v1::Column& column = *payload.add_columns();
      column.set_name(name);
      column.set_dtype(v1::DATA_TYPE_INT32);
      column.set_data(std::string(400'000, static_cast<char>(logged.id)));
    }
    return payload;
  };
  log.post = [&](std::function<void()> work) {
    ++pieces;
    work();
  };
  EXPECT_CALL(controller_, FetchHistory(_, _))
      .WillOnce([&](v1::FetchHistoryRequest request, auto done) {
        EXPECT_EQ(request.prompts(0).prompt_id(), 7u);
        std::vector<controller::HistoryPart::Prompt> prompts = {prompt};
        done(std::make_shared<controller::HistoryPart>(std::move(prompts), 0, log,
                                                       controller::BatchSource()));
      });
  auto experience = v1::ExperienceService::NewStub(channel_);
  grpc::ClientContext context;
  Deadline(context);
  v1::FetchHistoryRequest request;
  request.add_prompts()->set_prompt_id(7);
  auto reader = experience->FetchHistory(&context, request);
  v1::FetchHistoryResponse response;
  std::vector<uint64_t> versions;
  while (reader->Read(&response)) {
    for (const v1::EarlierResponse& one : response.responses()) {
      EXPECT_EQ(one.tokens_size(), 100'000);
      versions.push_back(one.policy_version());
    }
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_THAT(versions, ::testing::ElementsAre(51, 52, 54, 55, 57, 58));
  EXPECT_GE(pieces, 5) << "of a quarter of a MiB";
}

TEST_F(ApiServerTest, AHistoryThatIsRefusedEndsWithTheReason) {
  EXPECT_CALL(controller_, FetchHistory(_, _)).WillOnce([](auto, auto done) {
    done(MakeError(absl::StatusCode::kResourceExhausted, "HISTORY_BUSY", "later"));
  });
  grpc::ClientContext context;
  Deadline(context);
  auto reader = v1::ExperienceService::NewStub(channel_)->FetchHistory(&context, {});
  v1::FetchHistoryResponse response;
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_EQ(ErrorReason(FromGrpc(reader->Finish())), "HISTORY_BUSY");
}

}  // namespace
}  // namespace baton::api
