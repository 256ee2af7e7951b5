// Refusals of calls, and their errors.
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "baton/v1/access_service.grpc.pb.h"
#include "baton/v1/cluster_service.grpc.pb.h"
#include "baton/v1/experience_service.grpc.pb.h"
#include "baton/v1/worker_service.grpc.pb.h"
#include "tests/support/controller/api_server.h"
#include "tests/support/controller/token_table.h"

namespace baton::api {
namespace {

using controller::Callback;
using ::testing::_;
using ::testing::HasSubstr;
using ::testing::Not;

class IdleSession : public controller::WorkerSession {
 public:
  void OnMessage(v1::WorkerMessage) override {}
  void OnClosed() override {}
};

class RefusalsTest : public ApiServerTest {
 protected:
  void SetUp() override {
    ApiServerTest::SetUp();
    audit_path_ = files_ + "/audit.log";
    auto audit = access::AuditLog::Open({audit_path_, files_ + "/refusals.log"});
    ASSERT_TRUE(audit.ok());
    audit_ = *std::move(audit);
    Start(Access(tokens_.table(), audit_));
    ON_CALL(controller_, GetJob(_, _)).WillByDefault([](v1::GetJobRequest request, auto done) {
      v1::Job job;
      job.set_name(request.name());
      done(job);
    });
    ON_CALL(controller_, CreateJob(_, _)).WillByDefault([](v1::CreateJobRequest r, auto done) {
      v1::Job job;
      job.set_name(r.project());
      done(job);
    });
    ON_CALL(controller_, ListJobs(_, _)).WillByDefault([](v1::ListJobsRequest r, auto done) {
      v1::ListJobsResponse jobs;
      jobs.add_jobs()->set_name(r.project());
      done(jobs);
    });
  }

  /// The reason of the refusal; "" when the call went through.
  template <typename Stub, typename Request, typename Response>
  std::string As(const std::string& token, Stub& stub,
                 grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                 const Request& request, Response* response) {
    grpc::ClientContext context;
    Deadline(context);
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
    const absl::Status status = FromGrpc((stub.*method)(&context, request, response));
    message_ = std::string(status.message());
    return status.ok() ? "" : ErrorReason(status);
  }
  std::string Get(const std::string& token, const std::string& job) {
    v1::GetJobRequest request;
    request.set_name(job);
    return As(token, *jobs_, &v1::JobService::Stub::GetJob, request, &job_);
  }
  std::string Cancel(const std::string& token, const std::string& job) {
    v1::CancelJobRequest request;
    request.set_name(job);
    ON_CALL(controller_, CancelJob(_, _)).WillByDefault([](auto, auto done) { done(v1::Job()); });
    return As(token, *jobs_, &v1::JobService::Stub::CancelJob, request, &job_);
  }
  std::string Create(const std::string& token, const std::string& project) {
    v1::CreateJobRequest request;
    request.set_project(project);
    return As(token, *jobs_, &v1::JobService::Stub::CreateJob, request, &job_);
  }
  std::string Watch(const std::string& token, const std::string& job) {
    grpc::ClientContext context;
    Deadline(context);
    context.AddMetadata("authorization", "Bearer " + token);
    v1::WatchJobRequest request;
    request.set_name(job);
    auto reader = jobs_->WatchJob(&context, request);
    v1::JobEvent event;
    while (reader->Read(&event)) {
    }
    return ErrorReason(FromGrpc(reader->Finish()));
  }
  std::string Attach(const std::string& token) {
    grpc::ClientContext context;
    Deadline(context);
    context.AddMetadata("authorization", "Bearer " + token);
    auto stub = v1::WorkerService::NewStub(channel_);
    auto stream = stub->Attach(&context);
    v1::ControllerMessage message;
    while (stream->Read(&message)) {
    }
    return ErrorReason(FromGrpc(stream->Finish()));
  }
  void RevokeAll() {
    const v1::ListTokensResponse all = tokens_.table()->List({}).value();
    for (const v1::Token& token : all.tokens()) {
      tokens_.table()->Revoke(token.token_id(), [](const auto& done) { EXPECT_TRUE(done.ok()); });
    }
  }
  std::string Audit(const char* name = "/audit.log") const {
    audit_->Flush();
    std::ifstream in(files_ + name);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  access::TestTokens tokens_;
  std::shared_ptr<access::AuditLog> audit_;
  std::string audit_path_, message_;
  v1::Job job_;
};

TEST_F(RefusalsTest, RefusesMissingWrongAndExpiredTokens) {
  EXPECT_EQ(Get("", "j"), "TOKEN");
  EXPECT_EQ(Get("wrong", "j"), "TOKEN");
  EXPECT_EQ(Get(tokens_.Make("a", "read") + "x", "j"), "TOKEN");
  EXPECT_EQ(Get(tokens_.Make("a", "read", absl::Seconds(100), 60), "j"), "TOKEN_EXPIRED");
  EXPECT_EQ(Get(tokens_.Make("a", "read", absl::Seconds(10), 60), "j"), "");
  EXPECT_EQ(Get("root", "projects/b/jobs/j"), "");
}

TEST_F(RefusalsTest, AShortNameIsOfTheTokensProject) {
  const std::string token = tokens_.Make("a", "write");
  EXPECT_EQ(Get(token, "j"), "");
  EXPECT_EQ(job_.name(), "projects/a/jobs/j");
  EXPECT_EQ(Create(token, ""), "");
  EXPECT_EQ(job_.name(), "a");
  EXPECT_EQ(Get("root", "j"), "");
  EXPECT_EQ(job_.name(), "projects/default/jobs/j");
}

// Paths and keys are made of these strings: only valid ids reach the controller.
TEST_F(RefusalsTest, RefusesInvalidProjectAndJobNames) {
  EXPECT_CALL(controller_, GetJob(_, _)).Times(0);
  EXPECT_CALL(controller_, CreateJob(_, _)).Times(0);
  EXPECT_CALL(controller_, ValidateJob(_, _)).Times(0);
  EXPECT_CALL(controller_, ListJobs(_, _)).Times(0);
  EXPECT_CALL(controller_, SetProject(_, _)).Times(0);
  for (const std::string& token : {tokens_.Make("a", "write"), std::string("root")}) {
    for (const std::string project :
         {"a/../../..", "a/..", "..", ".", "/", "a/", "A", "a b", "a/jobs", "a/jobs/../..", "*"}) {
      v1::ValidateJobRequest validate;
      validate.set_project(project);
      v1::ValidateJobResponse valid;
      EXPECT_EQ(As(token, *jobs_, &v1::JobService::Stub::ValidateJob, validate, &valid),
                "NAME_INVALID")
          << project;
      EXPECT_EQ(Create(token, project), "NAME_INVALID") << project;
      v1::ListJobsRequest list;
      list.set_project(project);
      v1::ListJobsResponse jobs;
      EXPECT_EQ(As(token, *jobs_, &v1::JobService::Stub::ListJobs, list, &jobs), "NAME_INVALID")
          << project;
      EXPECT_EQ(Get(token, absl::StrCat("projects/", project, "/jobs/j")), "NAME_INVALID");
    }
    for (const char* job : {"projects/a/jobs/../../b", "projects/a/jobs/", "projects/a/jobs/x/y",
                            "../x", "projects/", "projects/a/models/x", "j\n"}) {
      EXPECT_EQ(Get(token, job), "NAME_INVALID") << job;
    }
  }
  v1::SetProjectRequest set;
  set.mutable_project()->set_project("a/..");
  v1::Project project;
  auto access = v1::AccessService::NewStub(channel_);
  EXPECT_EQ(As("root", *access, &v1::AccessService::Stub::SetProject, set, &project),
            "NAME_INVALID");
}

// The handler acts on what was granted.
TEST_F(RefusalsTest, ValidateJobIsOfTheProjectThatWasGranted) {
  ON_CALL(controller_, ValidateJob(_, _)).WillByDefault([](v1::ValidateJobRequest r, auto done) {
    v1::ValidateJobResponse answer;
    answer.add_violations()->set_field(r.project());
    done(answer);
  });
  v1::ValidateJobRequest request;
  v1::ValidateJobResponse answer;
  const std::string token = tokens_.Make("a", "write");
  for (const char* project : {"", "a"}) {
    request.set_project(project);
    ASSERT_EQ(As(token, *jobs_, &v1::JobService::Stub::ValidateJob, request, &answer), "");
    EXPECT_EQ(answer.violations(0).field(), "a");
  }
  request.set_project("b");
  EXPECT_EQ(As(token, *jobs_, &v1::JobService::Stub::ValidateJob, request, &answer), "PROJECT");
}

TEST_F(RefusalsTest, RefusesAccessToJobsOfAnotherProject) {
  const std::string token = tokens_.Make("a", "write");
  EXPECT_EQ(Get(token, "projects/b/jobs/j"), "PROJECT");
  EXPECT_THAT(message_, HasSubstr("is for project a, not for b"));
  EXPECT_EQ(Cancel(token, "projects/b/jobs/j"), "PROJECT");
  EXPECT_EQ(Create(token, "b"), "PROJECT");
  EXPECT_EQ(Watch(token, "projects/b/jobs/j"), "PROJECT");
  v1::ListJobsRequest list;
  v1::ListJobsResponse jobs;
  list.set_project("b");
  EXPECT_EQ(As(token, *jobs_, &v1::JobService::Stub::ListJobs, list, &jobs), "PROJECT");
  list.set_project("-");  // all that it may see
  EXPECT_EQ(As(token, *jobs_, &v1::JobService::Stub::ListJobs, list, &jobs), "");
  EXPECT_EQ(jobs.jobs(0).name(), "a");
}

TEST_F(RefusalsTest, RestrictsAWorkersTokenToItsProject) {
  const std::string token = tokens_.Make("a", "worker");
  std::string project;
  EXPECT_CALL(controller_, Attach(_)).WillOnce([&](auto stream) {
    project = stream->project();
    stream->Close(absl::OkStatus());
    return std::make_unique<IdleSession>();
  });
  EXPECT_EQ(Attach(token), "");
  EXPECT_EQ(project, "a");
  std::string asked;
  ON_CALL(controller_, FetchBatch(_, _)).WillByDefault([&](auto request, auto done) {
    asked = request.job();
    done(controller::BatchPart());
  });
  const auto fetch = [&](const std::string& job) {
    grpc::ClientContext context;
    Deadline(context);
    context.AddMetadata("authorization", "Bearer " + token);
    v1::FetchBatchRequest request;
    request.set_job(job);
    auto reader = v1::ExperienceService::NewStub(channel_)->FetchBatch(&context, request);
    v1::FetchBatchResponse response;
    while (reader->Read(&response)) {
    }
    return ErrorReason(FromGrpc(reader->Finish()));
  };
  EXPECT_EQ(fetch("projects/b/jobs/j"), "PROJECT");
  EXPECT_EQ(asked, "");
  EXPECT_EQ(fetch("j"), "");
  EXPECT_EQ(asked, "projects/a/jobs/j");
  std::string asked_history;
  ON_CALL(controller_, FetchHistory(_, _)).WillByDefault([&](auto request, auto done) {
    asked_history = request.job();
    done(absl::CancelledError("no matter"));
  });
  const auto history = [&](const std::string& with, const std::string& job) {
    grpc::ClientContext context;
    Deadline(context);
    context.AddMetadata("authorization", "Bearer " + with);
    v1::FetchHistoryRequest request;
    request.set_job(job);
    auto reader = v1::ExperienceService::NewStub(channel_)->FetchHistory(&context, request);
    v1::FetchHistoryResponse response;
    while (reader->Read(&response)) {
    }
    return ErrorReason(FromGrpc(reader->Finish()));
  };
  EXPECT_EQ(history(token, "projects/b/jobs/j"), "PROJECT");
  EXPECT_EQ(history(tokens_.Make("a", "write"), "j"), "SCOPE");
  EXPECT_EQ(asked_history, "");
  history(token, "j");
  EXPECT_EQ(asked_history, "projects/a/jobs/j");
}

class Placed : public controller::Subscription {
 public:
  explicit Placed(absl::Notification* gone) : gone_(gone) {}
  ~Placed() override { gone_->Notify(); }

 private:
  absl::Notification* const gone_;
};

TEST_F(RefusalsTest, ATokenThatIsRevokedClosesWhatItOpened) {
  const std::string worker = tokens_.Make("*", "worker"), writer = tokens_.Make("a", "write");
  absl::Notification attached, watched, uploading;
  EXPECT_CALL(controller_, Attach(_)).WillOnce([&](auto) {
    attached.Notify();
    return std::make_unique<IdleSession>();
  });
  EXPECT_CALL(controller_, WatchJob(_, _)).WillOnce([&](auto, auto) {
    watched.Notify();
    return nullptr;
  });
  EXPECT_CALL(controller_, uploads()).WillOnce([&] {
    uploading.Notify();
    return uploads_.get();
  });
  grpc::ClientContext contexts[3];
  for (int i = 0; i < 3; ++i) {
    Deadline(contexts[i]);
    contexts[i].AddMetadata("authorization", "Bearer " + (i == 0 ? worker : writer));
  }
  auto workers = v1::WorkerService::NewStub(channel_);
  auto attach = workers->Attach(&contexts[0]);
  v1::WatchJobRequest request;
  request.set_name("j");
  auto watch = jobs_->WatchJob(&contexts[1], request);
  v1::UploadFileResponse kept;
  auto upload = jobs_->UploadFile(&contexts[2], &kept);
  v1::UploadFileRequest piece;
  piece.set_filename("f");
  ASSERT_TRUE(upload->Write(piece));
  for (absl::Notification* one : {&attached, &watched, &uploading}) one->WaitForNotification();
  RevokeAll();
  v1::ControllerMessage message;
  v1::JobEvent event;
  EXPECT_FALSE(attach->Read(&message));
  EXPECT_EQ(ErrorReason(FromGrpc(attach->Finish())), "TOKEN");
  EXPECT_FALSE(watch->Read(&event));
  EXPECT_EQ(ErrorReason(FromGrpc(watch->Finish())), "TOKEN");
  EXPECT_EQ(upload->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(RefusalsTest, ATokenThatIsRevokedCutsABatchOff) {
  absl::Notification fetching;
  Callback<controller::BatchPart> answer;  // the batch is not put together yet
  EXPECT_CALL(controller_, FetchBatch(_, _)).WillOnce([&](auto, auto done) {
    answer = std::move(done);
    fetching.Notify();
  });
  grpc::ClientContext context;
  Deadline(context);
  context.AddMetadata("authorization", "Bearer " + tokens_.Make("*", "worker"));
  v1::FetchBatchRequest request;
  request.set_job("projects/a/jobs/j");
  auto reader = v1::ExperienceService::NewStub(channel_)->FetchBatch(&context, request);
  fetching.WaitForNotification();
  RevokeAll();
  v1::FetchBatchResponse response;
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_EQ(ErrorReason(FromGrpc(reader->Finish())), "TOKEN");
  answer(controller::PartOf(std::vector<v1::Trajectory>(3)));  // goes nowhere
}

TEST_F(RefusalsTest, ATokenThatExpiresClosesAWatchThatNobodyReads) {
  const std::string token = tokens_.Make("a", "read", absl::Milliseconds(58'500), 60);
  absl::Notification watched, gone;
  EXPECT_CALL(controller_, WatchJob(_, _)).WillOnce([&](auto, auto sink) {
    v1::JobEvent event;
    event.set_message(std::string(1 << 20, 'x'));
    for (int i = 0; i < 20; ++i) sink->OnEvent(event);
    watched.Notify();
    return std::make_unique<Placed>(&gone);
  });
  grpc::ClientContext context;
  Deadline(context);
  context.AddMetadata("authorization", "Bearer " + token);
  v1::WatchJobRequest request;
  request.set_name("j");
  auto watch = jobs_->WatchJob(&context, request);
  watched.WaitForNotification();
  EXPECT_TRUE(gone.WaitForNotificationWithTimeout(absl::Seconds(10)));
  context.TryCancel();
  watch->Finish();
}

TEST_F(RefusalsTest, RefusesMalformedFullJobNames) {
  const std::string token = tokens_.Make("a", "read");
  for (const char* name : {"projects/b/jobs/../../a/jobs/j", "projects/", "projects//jobs/j",
                           "../../b/jobs/j", "projects/a/jobs/../../b/jobs/j"}) {
    EXPECT_EQ(Get(token, name), "NAME_INVALID") << name;
  }
}

TEST_F(RefusalsTest, RefusesCallsOutsideATokensScopes) {
  const std::string reader = tokens_.Make("a", "read"), writer = tokens_.Make("a", "write"),
                    worker = tokens_.Make("*", "worker");
  EXPECT_EQ(Cancel(reader, "j"), "SCOPE");
  EXPECT_THAT(message_, HasSubstr("asks for the scope 'write'"));
  EXPECT_EQ(Create(reader, ""), "SCOPE");
  EXPECT_EQ(Cancel(writer, "j"), "");
  EXPECT_EQ(Get(worker, "j"), "SCOPE");
  EXPECT_EQ(Attach(reader), "SCOPE");
  EXPECT_EQ(Attach(writer), "SCOPE");
  auto cluster = v1::ClusterService::NewStub(channel_);
  v1::Worker drained;
  EXPECT_EQ(As(writer, *cluster, &v1::ClusterService::Stub::DrainWorker, v1::DrainWorkerRequest(),
               &drained),
            "SCOPE");
  auto access = v1::AccessService::NewStub(channel_);
  v1::CreateTokenRequest create;
  create.add_scopes("read");
  v1::CreateTokenResponse made;
  for (const std::string& token : {reader, writer, worker}) {
    EXPECT_EQ(As(token, *access, &v1::AccessService::Stub::CreateToken, create, &made), "SCOPE");
  }
  ASSERT_EQ(As("root", *access, &v1::AccessService::Stub::CreateToken, create, &made), "");
  EXPECT_EQ(Get(made.secret(), "j"), "");
}

TEST_F(RefusalsTest, OthersJobsAreNotNamedInTheListOfWorkers) {
  ON_CALL(controller_, ListWorkers(_, _)).WillByDefault([](auto, auto done) {
    v1::ListWorkersResponse workers;
    workers.add_workers()->set_job("projects/a/jobs/mine");
    workers.add_workers()->set_job("projects/b/jobs/secret");
    workers.add_workers();
    workers.add_workers()->set_project("b");
    done(workers);
  });
  auto cluster = v1::ClusterService::NewStub(channel_);
  v1::ListWorkersResponse seen;
  EXPECT_EQ(As(tokens_.Make("a", "read"), *cluster, &v1::ClusterService::Stub::ListWorkers,
               v1::ListWorkersRequest(), &seen),
            "");
  EXPECT_EQ(seen.workers(0).job(), "projects/a/jobs/mine");
  EXPECT_THAT(seen.workers(1).job(), Not(HasSubstr("secret")));
  EXPECT_EQ(seen.workers(2).job(), "");
  EXPECT_EQ(seen.workers_size(), 3);  // the one of project b is not its business
}

TEST_F(RefusalsTest, RefusesWatchesAboveAProjectsLimit) {
  v1::Project project;
  project.set_max_watches(1);
  ON_CALL(controller_, ProjectNamed("a")).WillByDefault(::testing::Return(project));
  std::shared_ptr<controller::EventSink> open;
  absl::Notification watching;
  EXPECT_CALL(controller_, WatchJob(_, _))
      .WillOnce([&](auto, auto sink) {
        open = sink;
        watching.Notify();
        return nullptr;
      })
      .WillRepeatedly([](auto, auto sink) {
        sink->OnEnd(absl::OkStatus());
        return nullptr;
      });
  const std::string a = tokens_.Make("a", "read");
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer " + a);
  v1::WatchJobRequest request;
  request.set_name("j");
  auto reader = jobs_->WatchJob(&context, request);
  watching.WaitForNotification();
  EXPECT_EQ(Watch(a, "j"), "QUOTA_WATCHES");
  EXPECT_EQ(Watch(tokens_.Make("b", "read"), "j"), "");
  open->OnEnd(absl::OkStatus());
  v1::JobEvent event;
  EXPECT_FALSE(reader->Read(&event));
  EXPECT_TRUE(reader->Finish().ok());
  // The place is free once gRPC is done with the stream.
  const absl::Time end = absl::Now() + absl::Seconds(10);
  std::string refused = "QUOTA_WATCHES";
  while (refused == "QUOTA_WATCHES" && absl::Now() < end) refused = Watch(a, "j");
  EXPECT_EQ(refused, "");
}

TEST_F(RefusalsTest, TheAuditLogTellsChangesAndRefusals) {
  const std::string writer = tokens_.Make("a", "write");
  Get(writer, "j");
  Cancel(writer, "j");
  Cancel(tokens_.Make("b", "read"), "projects/a/jobs/j");
  const std::string log = Audit();
  EXPECT_THAT(log, Not(HasSubstr("GetJob"))) << "reading is no change";
  EXPECT_THAT(log, HasSubstr(R"("method":"JobService.CancelJob","resource":"projects/a/jobs/j",)"
                             R"("code":"OK")"));
  v1::CreateJobRequest request;
  request.set_job_id("new");
  EXPECT_EQ(As(writer, *jobs_, &v1::JobService::Stub::CreateJob, request, &job_), "");
  EXPECT_EQ(job_.name(), "a");
  EXPECT_THAT(Audit(), HasSubstr(R"("JobService.CreateJob","resource":"projects/a/jobs/new")"));
  EXPECT_THAT(log, HasSubstr(R"("code":"PERMISSION_DENIED","reason":"SCOPE")"));
  EXPECT_THAT(log, Not(HasSubstr(writer))) << "no secret in a log";
}

TEST_F(RefusalsTest, LogsUnauthenticatedRefusalsInASeparateFile) {
  EXPECT_EQ(Get("wrong", "j"), "TOKEN");
  EXPECT_THAT(Audit(), Not(HasSubstr("TOKEN")));
  EXPECT_THAT(Audit("/refusals.log"), HasSubstr(R"("reason":"TOKEN")"));
}

TEST_F(RefusalsTest, StoresAnUploadOnlyInAProjectOfTheCaller) {
  const auto upload = [&](const std::string& token, const std::string& project) {
    grpc::ClientContext context;
    Deadline(context);
    context.AddMetadata("authorization", "Bearer " + token);
    v1::UploadFileResponse kept;
    auto writer = jobs_->UploadFile(&context, &kept);
    v1::UploadFileRequest piece;
    piece.set_filename("f");
    piece.set_project(project);
    writer->Write(piece);
    piece.set_project("b");  // the first message counts
    piece.set_data("x");
    writer->Write(piece);
    writer->WritesDone();
    const absl::Status status = FromGrpc(writer->Finish());
    return status.ok() ? kept.path().substr(0, 8) : ErrorReason(status);
  };
  const std::string of_a = tokens_.Make("a", "write"), of_all = tokens_.Make("*", "write");
  EXPECT_EQ(upload(of_a, ""), "files/a/");
  EXPECT_EQ(upload(of_a, "a"), "files/a/");
  EXPECT_EQ(upload(of_a, "b"), "PROJECT");
  EXPECT_EQ(upload(of_all, ""), "files/de");  // default
  EXPECT_EQ(upload(of_all, "b"), "files/b/");
  for (const char* project : {"..", "a/..", "../jobs/a", "B", "-", ".upload-1"}) {
    EXPECT_EQ(upload(of_all, project), "NAME_INVALID") << project;
  }
}

TEST_F(RefusalsTest, TheAuditLogTellsUploads) {
  grpc::ClientContext context;
  Deadline(context);
  context.AddMetadata("authorization", "Bearer " + tokens_.Make("a", "write"));
  v1::UploadFileResponse kept;
  auto upload = jobs_->UploadFile(&context, &kept);
  v1::UploadFileRequest piece;
  piece.set_filename("data.jsonl");
  piece.set_data("{}");
  upload->Write(piece);
  upload->WritesDone();
  ASSERT_TRUE(upload->Finish().ok());
  EXPECT_THAT(Audit(), HasSubstr(absl::StrCat(R"("method":"JobService.UploadFile","resource":")",
                                              kept.path(), R"(","code":"OK")")));
}

}  // namespace
}  // namespace baton::api
