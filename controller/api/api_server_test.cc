// Every service over real gRPC, on a controller that answers what the test says.
#include "controller/api/api_server.h"

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "baton/v1/cluster_service.grpc.pb.h"
#include "baton/v1/experience_service.grpc.pb.h"
#include "baton/v1/job_service.grpc.pb.h"
#include "baton/v1/replay_service.grpc.pb.h"
#include "baton/v1/worker_service.grpc.pb.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "sdk/common/rpc/error.h"
#include "tests/support/controller/api_server.h"
#include "tests/support/controller/mock_controller.h"

namespace baton::api {
namespace {

Access WithTokens() {
  return Access(std::make_shared<access::TokenTable>(std::set<std::string>{"secret"}));
}

using ::testing::_;
using ::testing::HasSubstr;
using ::testing::NiceMock;
using ::testing::Return;

// Each unary method reaches the controller's method of the same name, with its request, and
// brings back its answer or its error.
#define EXPECT_FORWARDS(Stub, Method, Request, Response, set_key, set_answer, get_answer) \
  do {                                                                                    \
    EXPECT_CALL(controller_, Method(_, _))                                                \
        .WillOnce([](v1::Request request, controller::Callback<v1::Response> done) {      \
          v1::Request wanted;                                                             \
          wanted.set_key("projects/default/jobs/key");                                    \
          EXPECT_EQ(request.SerializeAsString(), wanted.SerializeAsString()) << #Method;  \
          v1::Response response;                                                          \
          set_answer;                                                                     \
          done(response);                                                                 \
        })                                                                                \
        .WillOnce([](v1::Request, controller::Callback<v1::Response> done) {              \
          done(MakeError(absl::StatusCode::kNotFound, "SOME_REASON", "not here",          \
                         {{"name", #Method}}));                                           \
        });                                                                               \
    v1::Request request;                                                                  \
    request.set_key("projects/default/jobs/key");                                         \
    v1::Response response;                                                                \
    grpc::ClientContext first, second;                                                    \
    Deadline(first);                                                                      \
    Deadline(second);                                                                     \
    const grpc::Status ok = Stub->Method(&first, request, &response);                     \
    EXPECT_TRUE(ok.ok()) << #Method << ": " << ok.error_message();                        \
    EXPECT_TRUE(get_answer) << #Method << ": " << response.ShortDebugString();            \
    const absl::Status error = FromGrpc(Stub->Method(&second, request, &response));       \
    EXPECT_EQ(error.code(), absl::StatusCode::kNotFound) << #Method;                      \
    EXPECT_EQ(ErrorReason(error), "SOME_REASON") << #Method;                              \
    EXPECT_EQ(error.message(), "not here") << #Method;                                    \
  } while (false)

TEST_F(ApiServerTest, JobServiceForwardsEachUnaryMethod) {
  EXPECT_FORWARDS(jobs_, CreateJob, CreateJobRequest, Job, set_job_id, response.set_name("a"),
                  response.name() == "a");
  EXPECT_FORWARDS(jobs_, GetJob, GetJobRequest, Job, set_name, response.set_name("b"),
                  response.name() == "b");
  EXPECT_FORWARDS(jobs_, ListJobs, ListJobsRequest, ListJobsResponse, set_page_token,
                  response.add_jobs(), response.jobs_size() == 1);
  EXPECT_FORWARDS(jobs_, CancelJob, CancelJobRequest, Job, set_name, response.set_name("c"),
                  response.name() == "c");
  EXPECT_FORWARDS(jobs_, PauseJob, PauseJobRequest, Job, set_name, response.set_name("d"),
                  response.name() == "d");
  EXPECT_FORWARDS(jobs_, ResumeJob, ResumeJobRequest, Job, set_name, response.set_name("e"),
                  response.name() == "e");
  EXPECT_FORWARDS(jobs_, DeleteJob, DeleteJobRequest, DeleteJobResponse, set_name, (void)response,
                  true);
  EXPECT_FORWARDS(jobs_, ListMetrics, ListMetricsRequest, ListMetricsResponse, set_name,
                  response.add_steps(), response.steps_size() == 1);
  EXPECT_FORWARDS(jobs_, ListTrajectories, ListTrajectoriesRequest, ListTrajectoriesResponse,
                  set_name, response.add_trajectories(), response.trajectories_size() == 1);
  EXPECT_FORWARDS(jobs_, ListCheckpoints, ListCheckpointsRequest, ListCheckpointsResponse, set_name,
                  response.add_checkpoints(), response.checkpoints_size() == 1);
  EXPECT_FORWARDS(jobs_, ExportCheckpoint, ExportCheckpointRequest, ExportCheckpointResponse,
                  set_name, response.set_step(7), response.step() == 7);
  EXPECT_FORWARDS(jobs_, ExplainJob, ExplainJobRequest, ExplainJobResponse, set_name,
                  response.set_summary("f"), response.summary() == "f");
}

TEST_F(ApiServerTest, ReplayServiceForwardsEachMethod) {
  auto replays = v1::ReplayService::NewStub(channel_);
  EXPECT_FORWARDS(replays, CreateReplay, CreateReplayRequest, Replay, set_name,
                  response.set_job("r"), response.job() == "r");
  EXPECT_FORWARDS(replays, GetReplay, GetReplayRequest, Replay, set_name, response.set_to_step(7),
                  response.to_step() == 7);
}

TEST_F(ApiServerTest, ClusterServiceForwardsEachMethod) {
  auto cluster = v1::ClusterService::NewStub(channel_);
  EXPECT_FORWARDS(cluster, UndrainWorker, UndrainWorkerRequest, Worker, set_worker_id,
                  response.set_worker_id("v"), response.worker_id() == "v");
  EXPECT_FORWARDS(cluster, DrainWorker, DrainWorkerRequest, Worker, set_worker_id,
                  response.set_worker_id("w"), response.worker_id() == "w");
  EXPECT_CALL(controller_, ListWorkers(_, _)).WillOnce([](auto, auto done) {
    v1::ListWorkersResponse response;
    response.add_workers()->set_worker_id("w");
    done(response);
  });
  grpc::ClientContext context;
  v1::ListWorkersResponse response;
  EXPECT_TRUE(cluster->ListWorkers(&context, {}, &response).ok());
  EXPECT_EQ(response.workers(0).worker_id(), "w");
}

// The controller does not check a spec for a caller who has left.
TEST_F(ApiServerTest, TheControllerLearnsThatTheCallerIsGone) {
  absl::Notification called;
  EXPECT_CALL(controller_, ValidateJob(_, _)).WillOnce([&](auto, auto) { called.Notify(); });
  grpc::ClientContext context;
  v1::ValidateJobResponse response;
  std::thread caller([&] { jobs_->ValidateJob(&context, v1::ValidateJobRequest(), &response); });
  called.WaitForNotification();
  EXPECT_FALSE(controller_.last_gone());
  context.TryCancel();
  caller.join();
  const absl::Time end = absl::Now() + absl::Seconds(60);
  while (!controller_.last_gone() && absl::Now() < end) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_TRUE(controller_.last_gone());
}

TEST_F(ApiServerTest, EveryViolationOfASpecArrives) {
  EXPECT_CALL(controller_, CreateJob(_, _)).WillOnce([](auto, auto done) {
    std::vector<v1::FieldViolation> violations(2);
    violations[0].set_field("spec.rollout.n");
    violations[0].set_description("0 is not in [1, 1024]");
    violations[1].set_field("spec.data.train_files");
    done(MakeSpecError(violations));
  });
  v1::Job job;
  const absl::Status error = Call(&v1::JobService::Stub::CreateJob, v1::CreateJobRequest(), &job);
  EXPECT_EQ(error.code(), absl::StatusCode::kInvalidArgument);
  const auto violations = ErrorViolations(error);
  ASSERT_EQ(violations.size(), 2u);
  EXPECT_EQ(violations[0].field(), "spec.rollout.n");
  EXPECT_EQ(violations[1].field(), "spec.data.train_files");
}

TEST_F(ApiServerTest, AnErrorThatIsTooLongForTrailersArrivesShortened) {
  EXPECT_CALL(controller_, CreateJob(_, _)).WillOnce([](auto, auto done) {
    std::vector<v1::FieldViolation> violations(500);
    for (auto& violation : violations) violation.set_field("spec.data.train_files: ä, line 7");
    done(MakeSpecError(violations));
  });
  EXPECT_CALL(controller_, GetJob(_, _)).WillOnce([](auto, auto done) {
    const std::string name(1 << 20, 'x');
    done(MakeError(absl::StatusCode::kNotFound, "JOB_NOT_FOUND", name, {{"job", name}}));
  });
  v1::Job job;
  const absl::Status error = Call(&v1::JobService::Stub::CreateJob, v1::CreateJobRequest(), &job);
  EXPECT_EQ(ErrorReason(error), "SPEC_INVALID") << error;
  EXPECT_GT(ErrorViolations(error).size(), 10u);
  const absl::Status unknown = Call(&v1::JobService::Stub::GetJob, v1::GetJobRequest(), &job);
  EXPECT_EQ(ErrorReason(unknown), "JOB_NOT_FOUND") << unknown;
}

TEST_F(ApiServerTest, ACallMayBeAnsweredLaterOrNever) {
  controller::Callback<v1::Job> kept;
  absl::Notification asked;
  EXPECT_CALL(controller_, GetJob(_, _)).WillOnce([&](auto, auto done) {
    kept = done;
    asked.Notify();
  });
  grpc::ClientContext context;
  v1::Job job;
  grpc::Status status;
  std::thread caller([&] { status = jobs_->GetJob(&context, {}, &job); });
  asked.WaitForNotification();
  context.TryCancel();
  caller.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  server_.reset();  // does not wait for the controller
  kept(v1::Job());  // the call is over
}

// Tells when it is destroyed.
struct Watching {
  absl::Mutex mu;
  std::shared_ptr<controller::EventSink> sink ABSL_GUARDED_BY(mu);
  std::shared_ptr<std::atomic<bool>> ended = std::make_shared<std::atomic<bool>>(false);

  void Expect(controller::MockController& controller) {
    EXPECT_CALL(controller, WatchJob(_, _))
        .WillOnce([this](v1::WatchJobRequest request, std::shared_ptr<controller::EventSink> s) {
          EXPECT_EQ(request.after_revision(), 5);
          absl::MutexLock lock(&mu);
          sink = std::move(s);
          return std::make_unique<controller::FlagSubscription>(ended);
        });
  }
  controller::EventSink& Sink() {
    absl::MutexLock lock(&mu);
    mu.Await(absl::Condition(
        +[](Watching* w) ABSL_NO_THREAD_SAFETY_ANALYSIS { return w->sink != nullptr; }, this));
    return *sink;
  }
};

v1::WatchJobRequest WatchFrom(int64_t revision) {
  v1::WatchJobRequest request;
  request.set_name("a");
  request.set_after_revision(revision);
  return request;
}

v1::JobEvent Event(int64_t revision, size_t bytes = 0) {
  v1::JobEvent event;
  event.set_revision(revision);
  event.set_message(std::string(bytes, 'x'));
  return event;
}

// Waits, up to a deadline, for what happens on other threads.
bool Eventually(const std::function<bool()>& condition) {
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (!condition()) {
    if (absl::Now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST_F(ApiServerTest, WatchStreamsInOrderAndEnds) {
  Watching watching;
  watching.Expect(controller_);
  grpc::ClientContext context;
  Deadline(context);
  auto reader = jobs_->WatchJob(&context, WatchFrom(5));
  for (int64_t revision = 6; revision <= 100; ++revision) {
    EXPECT_TRUE(watching.Sink().OnEvent(Event(revision)));
  }
  watching.Sink().OnEnd(absl::OkStatus());
  EXPECT_FALSE(watching.Sink().OnEvent(Event(101)));
  v1::JobEvent event;
  int64_t next = 6;
  while (reader->Read(&event)) EXPECT_EQ(event.revision(), next++);
  EXPECT_EQ(next, 101);
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_TRUE(Eventually([&] { return watching.ended->load(); }));
}

TEST_F(ApiServerTest, ASlowWatcherIsCutOffAfterWhatItMissed) {
  Watching watching;
  watching.Expect(controller_);
  grpc::ClientContext context;
  Deadline(context);
  auto reader = jobs_->WatchJob(&context, WatchFrom(5));
  int64_t sent = 0;
  while (sent < 1000 && watching.Sink().OnEvent(Event(sent + 1, 1 << 20))) ++sent;
  ASSERT_GE(sent, 32);
  ASSERT_LT(sent, 1000) << "never cut off";
  v1::JobEvent event;
  int64_t got = 0;
  while (reader->Read(&event)) EXPECT_EQ(event.revision(), ++got);
  EXPECT_EQ(got, sent);
  const absl::Status status = FromGrpc(reader->Finish());
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrorReason(status), "WATCH_TOO_SLOW");
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr(absl::StrCat("resume after ", got, ",")));
}

TEST_F(ApiServerTest, AWatcherThatLeavesEndsItsSubscription) {
  Watching watching;
  watching.Expect(controller_);
  grpc::ClientContext context;
  auto reader = jobs_->WatchJob(&context, WatchFrom(5));
  watching.Sink();
  context.TryCancel();
  v1::JobEvent event;
  while (reader->Read(&event)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(Eventually([&] { return watching.ended->load(); }));
  EXPECT_FALSE(watching.Sink().OnEvent(Event(1)));
}

TEST_F(ApiServerTest, LogsStreamAndFail) {
  EXPECT_CALL(controller_, ReadLogs(_, _))
      .WillOnce([](v1::ReadLogsRequest request, std::shared_ptr<controller::LogSink> sink) {
        EXPECT_TRUE(request.follow());
        v1::LogEntry entry;
        entry.set_message("line");
        EXPECT_TRUE(sink->OnEntry(entry));
        sink->OnEnd(MakeError(absl::StatusCode::kNotFound, "JOB_NOT_FOUND", "gone"));
        return nullptr;
      });
  grpc::ClientContext context;
  Deadline(context);
  v1::ReadLogsRequest request;
  request.set_follow(true);
  auto reader = jobs_->ReadLogs(&context, request);
  v1::LogEntry entry;
  ASSERT_TRUE(reader->Read(&entry));
  EXPECT_EQ(entry.message(), "line");
  EXPECT_FALSE(reader->Read(&entry));
  EXPECT_EQ(ErrorReason(FromGrpc(reader->Finish())), "JOB_NOT_FOUND");
}

// Records what the controller's end of a worker's stream saw.
class RecordingSession : public controller::WorkerSession {
 public:
  struct Record {
    absl::Mutex mu;
    std::shared_ptr<controller::WorkerStream> stream ABSL_GUARDED_BY(mu);
    std::vector<v1::WorkerMessage> messages ABSL_GUARDED_BY(mu);
    bool closed ABSL_GUARDED_BY(mu) = false;

    bool WaitFor(const std::function<bool()>& condition) {
      absl::MutexLock lock(&mu);
      return mu.AwaitWithTimeout(
          absl::Condition(
              +[](const std::function<bool()>* c) { return (*c)(); }, &condition),
          absl::Seconds(20));
    }
  };
  explicit RecordingSession(Record* record) : record_(record) {}
  void OnMessage(v1::WorkerMessage message) override {
    absl::MutexLock lock(&record_->mu);
    record_->messages.push_back(std::move(message));
  }
  void OnClosed() override {
    absl::MutexLock lock(&record_->mu);
    record_->closed = true;
    record_->stream.reset();
  }

 private:
  Record* const record_;
};

class AttachTest : public ApiServerTest {
 protected:
  void SetUp() override {
    ApiServerTest::SetUp();
    ON_CALL(controller_, Attach(_)).WillByDefault([this](auto stream) {
      absl::MutexLock lock(&record_.mu);
      record_.stream = stream;
      return std::make_unique<RecordingSession>(&record_);
    });
    workers_ = v1::WorkerService::NewStub(channel_);
  }

  void TearDown() override { server_.reset(); }

  std::shared_ptr<controller::WorkerStream> stream() {
    EXPECT_TRUE(record_.WaitFor(
        [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return record_.stream != nullptr; }));
    absl::MutexLock lock(&record_.mu);
    return record_.stream;
  }

  RecordingSession::Record record_;
  std::unique_ptr<v1::WorkerService::Stub> workers_;
};

TEST_F(AttachTest, BothDirectionsKeepOrder) {
  grpc::ClientContext context;
  Deadline(context);
  auto call = workers_->Attach(&context);
  for (uint64_t i = 0; i < 200; ++i) {
    v1::WorkerMessage message;
    message.mutable_heartbeat()->set_sequence(i);
    ASSERT_TRUE(call->Write(message));
  }
  auto controller_end = stream();
  for (uint64_t i = 0; i < 200; ++i) {
    v1::ControllerMessage message;
    message.mutable_heartbeat_ack()->set_sequence(i);
    controller_end->Send(std::move(message));
  }
  v1::ControllerMessage answer;
  for (uint64_t i = 0; i < 200; ++i) {
    ASSERT_TRUE(call->Read(&answer));
    EXPECT_EQ(answer.heartbeat_ack().sequence(), i);
  }
  ASSERT_TRUE(record_.WaitFor(
      [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return record_.messages.size() == 200; }));
  {
    absl::MutexLock lock(&record_.mu);
    for (uint64_t i = 0; i < 200; ++i) EXPECT_EQ(record_.messages[i].heartbeat().sequence(), i);
  }
  call->WritesDone();
  EXPECT_TRUE(call->Finish().ok());
  EXPECT_TRUE(record_.WaitFor([this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return record_.closed; }));
}

TEST_F(AttachTest, AWorkerThatDoesNotReadIsCutOff) {
  grpc::ClientContext context;
  Deadline(context);
  auto call = workers_->Attach(&context);
  auto controller_end = stream();
  v1::ControllerMessage message;
  message.mutable_cancel()->set_reason(std::string(1 << 20, 'x'));
  // The capacity, and what the transport takes before anybody reads.
  for (int i = 0; i < 80; ++i) controller_end->Send(message);
  size_t read = 0;
  for (v1::ControllerMessage got; call->Read(&got);) ++read;
  EXPECT_LT(read, 20u);  // what waited was dropped
  EXPECT_EQ(ErrorReason(FromGrpc(call->Finish())), "WORKER_TOO_SLOW");
}

TEST_F(AttachTest, TheControllerMayEndAStream) {
  grpc::ClientContext context;
  Deadline(context);
  auto call = workers_->Attach(&context);
  auto controller_end = stream();
  controller_end->Close(MakeError(absl::StatusCode::kFailedPrecondition, "PROTOCOL_VERSION",
                                  "this controller speaks version 1"));
  controller_end->Close(absl::OkStatus());  // twice is allowed
  v1::ControllerMessage answer;
  EXPECT_FALSE(call->Read(&answer));
  EXPECT_EQ(ErrorReason(FromGrpc(call->Finish())), "PROTOCOL_VERSION");
  EXPECT_TRUE(record_.WaitFor([this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return record_.closed; }));
  controller_end->Send(v1::ControllerMessage());  // goes nowhere
}

TEST_F(AttachTest, AWorkerThatDiesIsNoticed) {
  grpc::ClientContext context;
  auto call = workers_->Attach(&context);
  auto controller_end = stream();
  context.TryCancel();
  EXPECT_TRUE(record_.WaitFor([this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return record_.closed; }));
  controller_end->Send(v1::ControllerMessage());
}

class TokenTest : public ApiServerTest {
 protected:
  void SetUp() override {
    ApiServerTest::SetUp();
    Start(WithTokens());
  }
  // The status codes of one call to each kind of method.
  std::vector<grpc::StatusCode> CallEverything(const std::string& authorization) {
    std::vector<grpc::StatusCode> codes;
    auto with_token = [&](grpc::ClientContext& context) {
      Deadline(context);
      if (!authorization.empty()) context.AddMetadata("authorization", authorization);
    };
    {
      grpc::ClientContext context;
      with_token(context);
      v1::Job job;
      codes.push_back(jobs_->GetJob(&context, {}, &job).error_code());
    }
    {
      grpc::ClientContext context;
      with_token(context);
      auto reader = jobs_->WatchJob(&context, {});
      v1::JobEvent event;
      while (reader->Read(&event)) {
      }
      codes.push_back(reader->Finish().error_code());
    }
    {
      grpc::ClientContext context;
      with_token(context);
      auto reader = jobs_->ReadLogs(&context, {});
      v1::LogEntry entry;
      while (reader->Read(&entry)) {
      }
      codes.push_back(reader->Finish().error_code());
    }
    {
      grpc::ClientContext context;
      with_token(context);
      v1::UploadFileResponse response;
      auto writer = jobs_->UploadFile(&context, &response);
      writer->WritesDone();
      codes.push_back(writer->Finish().error_code());
    }
    {
      grpc::ClientContext context;
      with_token(context);
      auto call = v1::WorkerService::NewStub(channel_)->Attach(&context);
      call->WritesDone();
      v1::ControllerMessage message;
      while (call->Read(&message)) {
      }
      codes.push_back(call->Finish().error_code());
    }
    {
      grpc::ClientContext context;
      with_token(context);
      auto reader = v1::ExperienceService::NewStub(channel_)->FetchBatch(&context, {});
      v1::FetchBatchResponse response;
      while (reader->Read(&response)) {
      }
      codes.push_back(reader->Finish().error_code());
    }
    {
      grpc::ClientContext context;
      with_token(context);
      auto reader = v1::ExperienceService::NewStub(channel_)->FetchHistory(&context, {});
      v1::FetchHistoryResponse response;
      while (reader->Read(&response)) {
      }
      codes.push_back(reader->Finish().error_code());
    }
    {
      grpc::ClientContext context;
      with_token(context);
      v1::ListWorkersResponse response;
      codes.push_back(
          v1::ClusterService::NewStub(channel_)->ListWorkers(&context, {}, &response).error_code());
    }
    return codes;
  }
};

TEST_F(TokenTest, RefusesEveryCallWithoutAKnownToken) {
  const std::vector<grpc::StatusCode> refused(8, grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_CALL(controller_, GetJob(_, _)).Times(0);
  EXPECT_CALL(controller_, WatchJob(_, _)).Times(0);
  EXPECT_CALL(controller_, Attach(_)).Times(0);
  EXPECT_CALL(controller_, FetchBatch(_, _)).Times(0);
  EXPECT_CALL(controller_, FetchHistory(_, _)).Times(0);
  for (const char* authorization : {"", "secret", "Bearer", "Bearer ", "Bearer secre",
                                    "Bearer secret2", "Basic secret", "bearer secret"}) {
    EXPECT_EQ(CallEverything(authorization), refused) << authorization;
  }
}

TEST_F(TokenTest, ServesEveryCallWithAKnownToken) {
  RecordingSession::Record record;
  ON_CALL(controller_, GetJob(_, _)).WillByDefault([](auto, auto done) { done(v1::Job()); });
  ON_CALL(controller_, WatchJob(_, _)).WillByDefault([](auto, auto sink) {
    sink->OnEnd(absl::OkStatus());
    return nullptr;
  });
  ON_CALL(controller_, ReadLogs(_, _)).WillByDefault([](auto, auto sink) {
    sink->OnEnd(absl::OkStatus());
    return nullptr;
  });
  ON_CALL(controller_, Attach(_)).WillByDefault([&](auto) {
    return std::make_unique<RecordingSession>(&record);
  });
  ON_CALL(controller_, FetchBatch(_, _)).WillByDefault([](auto, auto done) {
    done(controller::BatchPart());
  });
  ON_CALL(controller_, FetchHistory(_, _)).WillByDefault([](auto, auto done) {
    done(std::make_shared<controller::HistoryPart>(std::vector<controller::HistoryPart::Prompt>(),
                                                   0, controller::BatchSource(),
                                                   controller::BatchSource()));
  });
  ON_CALL(controller_, ListWorkers(_, _)).WillByDefault([](auto, auto done) {
    done(v1::ListWorkersResponse());
  });
  EXPECT_EQ(CallEverything("Bearer secret"),
            std::vector<grpc::StatusCode>(8, grpc::StatusCode::OK));
  server_.reset();
}

TEST_F(ApiServerTest, RefusesAddressesItMustNotOrCannotServe) {
  const auto open = ApiServer::Start("0.0.0.0:0", Access(), &controller_).status();
  EXPECT_EQ(open.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(open.message()), HasSubstr("--token-file"));
  const auto clear = ApiServer::Start("0.0.0.0:0", WithTokens(), &controller_).status();
  EXPECT_EQ(clear.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(clear.message()), HasSubstr("--insecure"));
  ApiOptions insecure;
  insecure.insecure = true;
  EXPECT_TRUE(ApiServer::Start("0.0.0.0:0", WithTokens(), &controller_, insecure).ok());
  const auto taken =
      ApiServer::Start(absl::StrCat("127.0.0.1:", server_->port()), Access(), &controller_)
          .status();
  EXPECT_EQ(taken.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(taken.message()), HasSubstr("Address already in use"));
}

}  // namespace
}  // namespace baton::api
