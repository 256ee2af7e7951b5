// Limits on what callers send and keep open: messages before and after the token is known, memory
// of gRPC's own, calls of a connection, its age.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "baton/v1/experience_service.grpc.pb.h"
#include "baton/v1/worker_service.grpc.pb.h"
#include "google/protobuf/descriptor.h"
#include "tests/support/controller/api_server.h"
#include "tests/support/controller/token_table.h"

namespace baton::api {
namespace {

using ::testing::_;
using ::testing::HasSubstr;

class CountingSession : public controller::WorkerSession {
 public:
  explicit CountingSession(absl::Notification* first) : first_(first) {}
  void OnMessage(v1::WorkerMessage) override {
    if (!first_->HasBeenNotified()) first_->Notify();
  }
  void OnClosed() override {}

 private:
  absl::Notification* const first_;
};

class LimitsTest : public ApiServerTest {
 protected:
  static constexpr size_t kMiB = 1 << 20;

  void SetUp() override {
    ApiServerTest::SetUp();
    StartWith({});
    ON_CALL(controller_, GetJob(_, _)).WillByDefault([](v1::GetJobRequest request, auto done) {
      v1::Job job;
      job.set_name(request.name());
      done(job);
    });
    ON_CALL(controller_, CreateJob(_, _)).WillByDefault([](auto, auto done) { done(v1::Job()); });
  }
  void TearDown() override { server_.reset(); }

  void StartWith(const ConnectionLimits& limits) {
    ApiOptions options;
    options.connections = limits;
    Start(Access(tokens_.table()), options);
  }

  // Not a message of any method.
  static grpc::ByteBuffer Bytes(size_t size) {
    const grpc::Slice slice(std::string(size, '\x07'));
    return grpc::ByteBuffer(&slice, 1);
  }

  static std::vector<std::string> AllMethods() {
    std::vector<std::string> methods;
    for (const char* service :
         {v1::JobService::service_full_name(), "baton.v1.ClusterService", "baton.v1.AccessService",
          v1::WorkerService::service_full_name(), v1::ExperienceService::service_full_name()}) {
      const auto* const found =
          google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(service);
      for (int i = 0; i < found->method_count(); ++i) {
        methods.push_back(absl::StrCat("/", service, "/", found->method(i)->name()));
      }
    }
    return methods;
  }

  absl::Status Attach(size_t bytes) {
    grpc::ClientContext context;
    Deadline(context);
    context.AddMetadata("authorization", "Bearer " + tokens_.Make("*", "worker"));
    auto call = v1::WorkerService::NewStub(channel_)->Attach(&context);
    v1::WorkerMessage message;
    message.mutable_hello()->set_worker_id(std::string(bytes, 'w'));
    call->Write(message);
    call->WritesDone();
    v1::ControllerMessage answer;
    while (call->Read(&answer)) {
    }
    return FromGrpc(call->Finish());
  }

  std::unique_ptr<grpc::ClientReader<v1::JobEvent>> Watch(grpc::ClientContext& context) {
    Deadline(context);
    context.AddMetadata("authorization", "Bearer root");
    v1::WatchJobRequest request;
    request.set_name("j");
    return jobs_->WatchJob(&context, request);
  }

  access::TestTokens tokens_;
};

// Larger than the server takes: a method that reads the message answers that it is too large.
TEST_F(LimitsTest, NoMethodReadsBeforeTheTokenIsKnown) {
  const grpc::ByteBuffer request = Bytes(65 * kMiB);
  const std::vector<std::string> methods = AllMethods();
  ASSERT_GT(methods.size(), 25u);
  for (const std::string& method : methods) {
    const absl::Status refused = FromGrpc(CallRaw(method, request));
    EXPECT_EQ(ErrorReason(refused), "TOKEN") << method << ": " << refused;
  }
  EXPECT_EQ(CallRaw("/baton.v1.JobService/NoSuchMethod", request).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_TRUE(CallRaw("/grpc.health.v1.Health/Check", request).ok()) << "everybody may ask that";
}

TEST_F(LimitsTest, EachMethodHasALimitOfItsOwn) {
  v1::GetJobRequest get;
  const auto get_of = [&](size_t name) {
    get.set_name(std::string(name, 'n'));
    grpc::ClientContext context;
    Deadline(context);
    context.AddMetadata("authorization", "Bearer root");
    v1::Job job;
    return FromGrpc(jobs_->GetJob(&context, get, &job));
  };
  // 65,536 in all: a tag of one byte, a length of three.
  EXPECT_EQ(ErrorReason(get_of(65'532)), "NAME_INVALID") << "it was read";
  const absl::Status refused = get_of(65'533);
  EXPECT_EQ(ErrorReason(refused), "MESSAGE_TOO_LARGE");
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("JobService.GetJob: the request has 65537 bytes, of at most 65536; leave"));

  const auto create_of = [&](size_t note) {
    v1::CreateJobRequest create;
    create.set_job_id("j");
    create.mutable_spec()->mutable_model()->set_path(std::string(note, 'p'));
    grpc::ClientContext context;
    Deadline(context);
    context.AddMetadata("authorization", "Bearer root");
    v1::Job job;
    return ErrorReason(FromGrpc(jobs_->CreateJob(&context, create, &job)));
  };
  EXPECT_EQ(create_of(4 * kMiB - 100), "") << "the controller says what is wrong with its spec";
  EXPECT_EQ(create_of(4 * kMiB), "MESSAGE_TOO_LARGE");
}

TEST_F(LimitsTest, BoundsUploadPiecesAndWorkerMessages) {
  const auto upload = [&](size_t bytes) {
    grpc::ClientContext context;
    Deadline(context);
    context.AddMetadata("authorization", "Bearer root");
    v1::UploadFileResponse kept;
    auto call = jobs_->UploadFile(&context, &kept);
    v1::UploadFileRequest piece;
    piece.set_filename("f");
    piece.set_data(std::string(bytes, 'x'));
    call->Write(piece);
    call->WritesDone();
    return FromGrpc(call->Finish());
  };
  EXPECT_TRUE(upload(4 * kMiB - 100).ok());
  EXPECT_EQ(ErrorReason(upload(4 * kMiB)), "MESSAGE_TOO_LARGE");

  absl::Notification arrived, too_large;
  EXPECT_CALL(controller_, Attach(_)).WillOnce([&](auto) {
    return std::make_unique<CountingSession>(&arrived);
  });
  EXPECT_TRUE(Attach(63 * kMiB).ok());
  EXPECT_TRUE(arrived.HasBeenNotified());
  EXPECT_CALL(controller_, Attach(_)).WillOnce([&](auto) {
    return std::make_unique<CountingSession>(&too_large);
  });
  EXPECT_TRUE(absl::IsResourceExhausted(Attach(65 * kMiB)));
  EXPECT_FALSE(too_large.HasBeenNotified());
}

TEST_F(LimitsTest, RefusesARequestThatDoesNotParse) {
  const grpc::Status refused = CallRaw("/baton.v1.JobService/GetJob", Bytes(100), "root");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), HasSubstr("no baton.v1.GetJobRequest"));
}

TEST_F(LimitsTest, BeyondTheQuotaOfMemoryCallsEnd) {
  absl::Notification arrived, refused;
  EXPECT_CALL(controller_, Attach(_)).WillOnce([&](auto) {
    return std::make_unique<CountingSession>(&arrived);
  });
  EXPECT_TRUE(Attach(48 * kMiB).ok());
  EXPECT_TRUE(arrived.HasBeenNotified());
  ConnectionLimits limits;
  limits.quota_bytes = 16 * kMiB;
  StartWith(limits);
  EXPECT_CALL(controller_, Attach(_)).WillOnce([&](auto) {
    return std::make_unique<CountingSession>(&refused);
  });
  EXPECT_FALSE(Attach(48 * kMiB).ok());
  server_.reset();
  EXPECT_FALSE(refused.HasBeenNotified());
}

TEST_F(LimitsTest, CallsOfOneConnectionWaitForEachOther) {
  ConnectionLimits limits;
  limits.streams = 2;
  StartWith(limits);
  absl::Notification open[2], third;
  std::atomic<int> watches{0};
  EXPECT_CALL(controller_, WatchJob(_, _)).Times(3).WillRepeatedly([&](auto, auto) {
    const int watch = watches++;
    watch < 2 ? open[watch].Notify() : third.Notify();
    return nullptr;
  });
  grpc::ClientContext contexts[3];
  std::unique_ptr<grpc::ClientReader<v1::JobEvent>> readers[3];
  for (int i = 0; i < 2; ++i) {
    readers[i] = Watch(contexts[i]);
    open[i].WaitForNotification();
  }
  // Both places are taken: a call of the same connection ends with its deadline …
  grpc::ClientContext hasty;
  hasty.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(300));
  hasty.AddMetadata("authorization", "Bearer root");
  v1::GetJobRequest request;
  request.set_name("j");
  v1::Job job;
  EXPECT_EQ(jobs_->GetJob(&hasty, request, &job).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  // … and one that waits gets a place that is free again.
  std::thread late([&] { readers[2] = Watch(contexts[2]); });  // returns when it has one
  contexts[0].TryCancel();
  EXPECT_TRUE(third.WaitForNotificationWithTimeout(absl::Seconds(20)));
  late.join();
  for (auto& context : contexts) context.TryCancel();
  v1::JobEvent event;
  for (auto& reader : readers) {
    while (reader->Read(&event)) {
    }
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
}

TEST_F(LimitsTest, AConnectionThatIsOldEndsItsStreamsAndAnotherGoesOn) {
  ConnectionLimits limits;
  limits.age = absl::Milliseconds(100);
  limits.age_grace = absl::Milliseconds(100);
  StartWith(limits);
  grpc::ClientContext context;
  auto reader = Watch(context);
  v1::JobEvent event;
  EXPECT_FALSE(reader->Read(&event));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  grpc::ClientContext next;
  Deadline(next);
  next.set_wait_for_ready(true);
  next.AddMetadata("authorization", "Bearer root");
  v1::GetJobRequest request;
  request.set_name("j");
  v1::Job job;
  EXPECT_TRUE(jobs_->GetJob(&next, request, &job).ok());
}

TEST_F(LimitsTest, AConnectionWithoutCallsEnds) {
  ConnectionLimits limits;
  limits.idle = absl::Milliseconds(100);
  StartWith(limits);
  const auto deadline = std::chrono::system_clock::now() + std::chrono::seconds(20);
  ASSERT_TRUE(channel_->WaitForConnected(deadline));
  EXPECT_TRUE(channel_->WaitForStateChange(GRPC_CHANNEL_READY, deadline));
}

}  // namespace
}  // namespace baton::api
