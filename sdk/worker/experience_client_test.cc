#include "sdk/worker/experience_client.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "baton/v1/experience_service.grpc.pb.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "sdk/worker/fake_controller.h"

namespace baton {
namespace {

TEST(ExperienceClient, ACancelledTaskDoesNotWaitForASilentController) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);

  WorkerOptions options;
  options.controller = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  const ExperienceClient client(options);
  TaskContext context(v1::Task(), {});
  absl::Notification done;
  std::thread fetcher([&] {
    EXPECT_TRUE(absl::IsCancelled(client.FetchBatch(context).status()));
    done.Notify();
  });
  const int connection = accept(listener, nullptr, nullptr);  // and not a word
  EXPECT_GE(connection, 0);
  context.Cancel();
  EXPECT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(5)));
  close(connection);
  close(listener);
  fetcher.join();
}

// A controller's service on a port, and the options of a worker that asks it.
struct Served {
  explicit Served(v1::ExperienceService::Service* controller) {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(controller);
    server = builder.BuildAndStart();
    options.controller = absl::StrCat("127.0.0.1:", port);
  }
  std::unique_ptr<grpc::Server> server;
  WorkerOptions options;
};

// A controller that stops: the first call is cancelled, and the next controller answers.
class StoppingController final : public v1::ExperienceService::Service {
 public:
  grpc::Status FetchBatch(grpc::ServerContext* /*context*/,
                          const v1::FetchBatchRequest* /*request*/,
                          grpc::ServerWriter<v1::FetchBatchResponse>* writer) override {
    if (calls++ == 0) return {grpc::StatusCode::CANCELLED, "CANCELLED"};
    v1::FetchBatchResponse response;
    response.add_trajectories()->set_trajectory_id("train-1");
    writer->Write(response);
    return grpc::Status::OK;
  }
  std::atomic<int> calls = 0;
};

TEST(ExperienceClient, ACallThatAStoppingControllerCancelsIsMadeAgain) {
  StoppingController controller;
  const Served served(&controller);
  const ExperienceClient client(served.options);
  TaskContext context(v1::Task(), {});
  const auto batch = client.FetchBatch(context);
  ASSERT_TRUE(batch.ok()) << batch.status();
  ASSERT_EQ(batch->size(), 1u);
  EXPECT_EQ(batch->at(0).trajectory_id(), "train-1");
  EXPECT_EQ(controller.calls, 2);
}

// Answers with where the call came from.
class PeerController final : public v1::ExperienceService::Service {
 public:
  grpc::Status FetchBatch(grpc::ServerContext* context, const v1::FetchBatchRequest* /*request*/,
                          grpc::ServerWriter<v1::FetchBatchResponse>* writer) override {
    if (fails.exchange(false)) return {grpc::StatusCode::UNAVAILABLE, "not yet"};
    v1::FetchBatchResponse response;
    response.add_trajectories()->set_trajectory_id(context->peer());
    writer->Write(response);
    return grpc::Status::OK;
  }
  std::atomic<bool> fails = false;
};

TEST(ExperienceClient, AConnectionIsKeptUntilACallFails) {
  PeerController controller;
  const Served served(&controller);
  const ExperienceClient client(served.options);
  TaskContext context(v1::Task(), {});
  std::vector<std::string> peers;
  for (const bool fails : {false, false, true}) {
    controller.fails = fails;
    const auto batch = client.FetchBatch(context);
    ASSERT_TRUE(batch.ok()) << batch.status();
    peers.push_back(batch->at(0).trajectory_id());
  }
  EXPECT_EQ(peers[1], peers[0]);
  EXPECT_NE(peers[2], peers[0]);
}

v1::FetchHistoryRequest HistoryOf(uint64_t prompt) {
  v1::FetchHistoryRequest request;
  request.set_job("projects/default/jobs/test");
  request.set_capability("opens");
  request.add_prompts()->set_prompt_id(prompt);
  return request;
}

TEST(ExperienceClient, AHistoryComesInItsOrder) {
  FakeController controller;
  controller.SetHistory([](const v1::FetchHistoryRequest& request) {
    std::vector<v1::EarlierResponse> history(3);
    for (size_t i = 0; i < history.size(); ++i) {
      history[i].add_tokens(static_cast<int32_t>(request.prompts(0).prompt_id()));
      history[i].set_policy_version(9 - i);
    }
    return history;
  });
  WorkerOptions options;
  options.controller = controller.address();
  const ExperienceClient client(options);
  CallCanceller canceller;
  const auto history = client.FetchHistory(HistoryOf(7), absl::Seconds(10), canceller);
  ASSERT_TRUE(history.ok()) << history.status();
  ASSERT_EQ(history->size(), 3u);
  EXPECT_EQ(history->at(2).tokens(0), 7);
  EXPECT_EQ(history->at(0).policy_version(), 9u);
  EXPECT_EQ(history->at(2).policy_version(), 7u);
  EXPECT_EQ(controller.history_fetches().at(0).capability(), "opens");
}

// A history is no reason to wait: a controller that fails is asked once.
TEST(ExperienceClient, AHistoryIsTriedOnce) {
  FakeController controller;
  controller.SetHistory(
      [](const v1::FetchHistoryRequest&) { return absl::UnavailableError("it stops"); });
  WorkerOptions options;
  options.controller = controller.address();
  const ExperienceClient client(options);
  CallCanceller canceller;
  const auto history = client.FetchHistory(HistoryOf(7), absl::Seconds(10), canceller);
  EXPECT_TRUE(absl::IsUnavailable(history.status())) << history.status();
  EXPECT_EQ(controller.history_fetches().size(), 1u);
}

TEST(ExperienceClient, ASilentControllerHoldsNoHistoryBack) {
  absl::Notification asked, over;  // outlive the controller, which waits for its calls
  FakeController controller;
  controller.SetHistory([&](const v1::FetchHistoryRequest&) {
    if (!asked.HasBeenNotified()) asked.Notify();
    over.WaitForNotification();
    return std::vector<v1::EarlierResponse>();
  });
  WorkerOptions options;
  options.controller = controller.address();
  const ExperienceClient client(options);
  CallCanceller canceller;
  std::thread fetcher([&] {
    EXPECT_TRUE(
        absl::IsCancelled(client.FetchHistory(HistoryOf(7), absl::Hours(1), canceller).status()));
  });
  asked.WaitForNotification();
  canceller.Cancel();
  fetcher.join();
  EXPECT_TRUE(
      absl::IsCancelled(client.FetchHistory(HistoryOf(7), absl::Hours(1), canceller).status()))
      << "it stays cancelled";
  CallCanceller another;
  const auto late = client.FetchHistory(HistoryOf(7), absl::Milliseconds(50), another);
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.status())) << late.status();
  over.Notify();
}

}  // namespace
}  // namespace baton
