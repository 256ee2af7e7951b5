#include "sdk/worker/experience_client.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "baton/v1/experience_service.grpc.pb.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"

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
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&controller);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  WorkerOptions options;
  options.controller = absl::StrCat("127.0.0.1:", port);
  const ExperienceClient client(options);
  TaskContext context(v1::Task(), {});
  const auto batch = client.FetchBatch(context);
  ASSERT_TRUE(batch.ok()) << batch.status();
  ASSERT_EQ(batch->size(), 1u);
  EXPECT_EQ(batch->at(0).trajectory_id(), "train-1");
  EXPECT_EQ(controller.calls, 2);
}

}  // namespace
}  // namespace baton
