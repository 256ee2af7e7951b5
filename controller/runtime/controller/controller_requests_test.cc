// Repeated calls, drains, and answers while nothing is committed.
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "controller/runtime/cluster/job_order.h"
#include "controller/runtime/rows/tables.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/rpc/error.h"
#include "tests/support/controller/given_checkpoint.h"
#include "tests/support/controller/whole_controller.h"

namespace baton::controller {
namespace {

using ::testing::HasSubstr;

class RequestsTest : public WholeControllerTest {};

/// A caller whose call stops where the controller first asks whether it is gone: on a thread that
/// reads data.
struct HeldCaller {
  absl::Notification asked, go_on;
  std::atomic<bool> left = false;

  CallerGone gone() {
    return [this] {
      if (!asked.HasBeenNotified()) {
        asked.Notify();
        go_on.WaitForNotification();
      }
      return left.load();
    };
  }
};

TEST_F(RequestsTest, RefusesARequestIdReusedForACheckpoint) {
  v1::CreateJobRequest request;
  request.set_job_id("add");
  request.set_request_id("request-1");
  *request.mutable_spec() = Spec();
  ASSERT_TRUE(Wait<v1::Job>([&](auto done) { controller_->CreateJob(request, done); }).ok());
  request.clear_spec();
  request.set_checkpoint("jobs/default/other/checkpoints/step-1");
  for (int i = 0; i < 2; ++i) {
    const auto other = Wait<v1::Job>([&](auto done) { controller_->CreateJob(request, done); });
    EXPECT_EQ(ErrorReason(other.status()), "REQUEST_ID_REUSED") << other.status();
    EXPECT_THAT(std::string(other.status().message()), HasSubstr("from a spec"));
    Start();  // from its row
  }
}

TEST_F(RequestsTest, SteeringWithARequestIdHappensOnce) {
  ASSERT_TRUE(Create(Spec(), "add", "create").ok());
  const auto pause = [&](const std::string& id) {
    v1::PauseJobRequest request;
    request.set_name("add");
    request.set_request_id(id);
    return Wait<v1::Job>([&](auto done) { controller_->PauseJob(request, done); });
  };
  const auto resume = [&](const std::string& id) {
    v1::ResumeJobRequest request;
    request.set_name("add");
    request.set_request_id(id);
    return Wait<v1::Job>([&](auto done) { controller_->ResumeJob(request, done); });
  };
  ASSERT_EQ(pause("one")->state(), v1::Job::STATE_PAUSED);
  ASSERT_EQ(resume("two")->state(), v1::Job::STATE_QUEUED);
  for (int i = 0; i < 2; ++i) {
    const auto again = pause("one");
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->state(), v1::Job::STATE_PAUSED) << "the first outcome";
    EXPECT_EQ(again->spec().data().train_batch_size(), 2);
    EXPECT_EQ(Get("add")->state(), v1::Job::STATE_QUEUED) << "and nothing changes";
    EXPECT_EQ(resume("two")->state(), v1::Job::STATE_QUEUED);
    EXPECT_EQ(ErrorReason(resume("one").status()), "REQUEST_ID_REUSED");
    EXPECT_EQ(ErrorReason(pause("create").status()), "REQUEST_ID_REUSED");
    EXPECT_EQ(ErrorReason(Create(Spec(), "add", "one").status()), "REQUEST_ID_REUSED");
    Start();
  }
  EXPECT_EQ(ErrorReason(pause(std::string(257, 'x')).status()), "REQUEST_ID");
  EXPECT_EQ(pause("three")->state(), v1::Job::STATE_PAUSED);
}

// The calls are answered once the store takes writes again, both with the first call's answer.
TEST_F(RequestsTest, ConcurrentSteeringCallsWithOneRequestIdHappenOnce) {
  ASSERT_TRUE(Create(Spec(), "add").ok());
  store_->FailWith(absl::ResourceExhaustedError("disk full"));
  v1::PauseJobRequest request;
  request.set_name("add");
  request.set_request_id("one");
  absl::Notification done[2];
  absl::StatusOr<v1::Job> answers[2] = {absl::UnknownError(""), absl::UnknownError("")};
  for (int i = 0; i < 2; ++i) {
    controller_->PauseJob(request, [&, i](absl::StatusOr<v1::Job> answer) {
      answers[i] = std::move(answer);
      done[i].Notify();
    });
  }
  EXPECT_FALSE(done[0].HasBeenNotified());
  store_->FailWith(absl::OkStatus());
  for (int i = 0; i < 2; ++i) {
    done[i].WaitForNotification();
    ASSERT_TRUE(answers[i].ok()) << answers[i].status();
    EXPECT_EQ(answers[i]->state(), v1::Job::STATE_PAUSED);
  }
  EXPECT_EQ(answers[0]->revision(), answers[1]->revision());
}

TEST_F(RequestsTest, ARepeatedDeletionDoesNotAffectALaterJob) {
  const auto erase = [&](const std::string& id) {
    v1::DeleteJobRequest request;
    request.set_name("add");
    request.set_request_id(id);
    return Wait<v1::DeleteJobResponse>([&](auto done) { controller_->DeleteJob(request, done); })
        .status();
  };
  const auto cancel = [&](const std::string& id) {
    v1::CancelJobRequest request;
    request.set_name("add");
    request.set_request_id(id);
    return Wait<v1::Job>([&](auto done) { controller_->CancelJob(request, done); });
  };
  ASSERT_TRUE(Create(Spec(), "add").ok());
  EXPECT_EQ(ErrorReason(erase("early")), "JOB_ACTIVE");
  const auto cancelled = cancel("stop");
  ASSERT_EQ(cancelled->state(), v1::Job::STATE_CANCELLED);
  ASSERT_TRUE(erase("gone").ok());
  EXPECT_TRUE(erase("gone").ok());
  ASSERT_TRUE(Create(Spec(), "add").ok());
  EXPECT_TRUE(erase("gone").ok());
  EXPECT_EQ(cancel("stop")->uid(), cancelled->uid());
  Start();
  EXPECT_TRUE(erase("gone").ok());
  EXPECT_EQ(Get("add")->state(), v1::Job::STATE_QUEUED);
  EXPECT_EQ(ErrorReason(erase("early")), "JOB_ACTIVE") << "a refusal is judged again";
}

// A replay is made by its call, as a job is by CreateJob: without the job the call is made anew.
// The keys of calls that change a job stay.
TEST_F(RequestsTest, TheCallThatMadeAReplayGoesWithItAfterARestart) {
  ASSERT_TRUE(Create(Spec(), "again").ok());
  store::v1::RequestRow row;
  row.set_job(Get("again")->name());
  row.set_time(absl::ToUnixSeconds(absl::Now()));
  row.set_method("CreateReplay");
  std::vector<store::Write> writes = RowsOfOrder(row.job(), 1, "default/replay");
  writes.push_back({kRequestTable, "default/replay", row.SerializeAsString()});
  store_->Commit(std::move(writes), [](const absl::Status&) {});
  Start();
  EXPECT_TRUE(store_->Get(kRequestTable, "default/replay")->has_value());
  v1::CancelJobRequest cancel;
  cancel.set_name("again");
  cancel.set_request_id("stop");
  ASSERT_TRUE(Wait<v1::Job>([&](auto done) { controller_->CancelJob(cancel, done); }).ok());
  v1::DeleteJobRequest erase;
  erase.set_name("again");
  ASSERT_TRUE(
      Wait<v1::DeleteJobResponse>([&](auto done) { controller_->DeleteJob(erase, done); }).ok());
  EXPECT_FALSE(store_->Get(kRequestTable, "default/replay")->has_value());
  EXPECT_TRUE(store_->Get(kRequestTable, "default/stop")->has_value());
}

// Until their turns are committed, the jobs still say that they have ended; they count all the
// same.
TEST_F(RequestsTest, ParallelResumesKeepToTheLimitOfJobs) {
  constexpr int kJobs = 6;
  for (int i = 0; i < kJobs; ++i) {
    const std::string id = "job-" + std::to_string(i);
    ASSERT_TRUE(Create(Spec(), id).ok());
    v1::CancelJobRequest cancel;
    cancel.set_name(id);
    ASSERT_TRUE(Wait<v1::Job>([&](auto done) { controller_->CancelJob(cancel, done); }).ok());
  }
  controller_.reset();
  for (int i = 0; i < kJobs; ++i) {
    GiveCheckpoint(*store_, FullJobName("job-" + std::to_string(i)));
  }
  Start();
  v1::Project project;
  project.set_project("default");
  project.set_max_jobs(1);
  ASSERT_TRUE(Wait<v1::Project>([&](auto done) { controller_->SetProject(project, done); }).ok());
  store_->FailWith(absl::ResourceExhaustedError("disk full"));
  absl::Notification answered[kJobs];
  absl::Status answers[kJobs];
  absl::Mutex mu;
  int refused = 0;
  for (int i = 0; i < kJobs; ++i) {
    v1::ResumeJobRequest resume;
    resume.set_name("job-" + std::to_string(i));
    if (i % 2 == 0) resume.set_request_id("resume-" + std::to_string(i));
    controller_->ResumeJob(resume, [&, i](const absl::StatusOr<v1::Job>& answer) {
      answers[i] = answer.status();
      {
        absl::MutexLock lock(&mu);
        refused += answer.ok() ? 0 : 1;
      }
      answered[i].Notify();
    });
  }
  // All six calls are judged while none is committed: five are refused before the store takes the
  // sixth.
  {
    const auto judged = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu) { return refused == kJobs - 1; };
    absl::MutexLock lock(&mu);
    EXPECT_TRUE(mu.AwaitWithTimeout(absl::Condition(&judged), absl::Seconds(20))) << refused;
  }
  store_->FailWith(absl::OkStatus());
  int resumed = 0;
  for (int i = 0; i < kJobs; ++i) {
    answered[i].WaitForNotification();
    resumed += answers[i].ok() ? 1 : 0;
    if (!answers[i].ok()) EXPECT_EQ(ErrorReason(answers[i]), "QUOTA_JOBS") << answers[i];
  }
  EXPECT_EQ(resumed, 1);
  EXPECT_EQ(ErrorReason(Create(Spec(), "one-more").status()), "QUOTA_JOBS");
}

// The first is being read when the second comes, and no job is in the table yet.
TEST_F(RequestsTest, ASubmissionCountsFromItsGateOn) {
  v1::Project project;
  project.set_project("default");
  project.set_max_jobs(1);
  ASSERT_TRUE(Wait<v1::Project>([&](auto done) { controller_->SetProject(project, done); }).ok());
  HeldCaller caller;
  absl::Notification made;
  absl::Status first;
  v1::CreateJobRequest request;
  *request.mutable_spec() = Spec();
  controller_->CreateJob(
      request,
      [&](const absl::StatusOr<v1::Job>& job) {
        first = job.status();
        made.Notify();
      },
      caller.gone());
  caller.asked.WaitForNotification();
  const auto second = Wait<v1::Job>([&](auto done) { controller_->CreateJob(request, done); });
  EXPECT_EQ(ErrorReason(second.status()), "QUOTA_JOBS") << second.status();
  EXPECT_THAT(
      std::string(second.status().message()),
      HasSubstr("has 0 jobs that have not ended and 1 submissions that are being checked, of at"));
  caller.go_on.Notify();
  made.WaitForNotification();
  EXPECT_TRUE(first.ok()) << first;
}

// The caller's submission is still being read.
TEST_F(RequestsTest, ASubmissionCountsNoLongerThanItsCallerStays) {
  v1::Project project;
  project.set_project("default");
  project.set_max_jobs(1);
  ASSERT_TRUE(Wait<v1::Project>([&](auto done) { controller_->SetProject(project, done); }).ok());
  HeldCaller caller;
  absl::Notification ended;
  absl::Status first;
  v1::CreateJobRequest request;
  *request.mutable_spec() = Spec();
  controller_->CreateJob(
      request,
      [&](const absl::StatusOr<v1::Job>& job) {
        first = job.status();
        ended.Notify();
      },
      caller.gone());
  caller.asked.WaitForNotification();
  caller.left = true;
  const auto second = Wait<v1::Job>([&](auto done) { controller_->CreateJob(request, done); });
  EXPECT_TRUE(second.ok()) << second.status();
  caller.go_on.Notify();
  ended.WaitForNotification();
  EXPECT_TRUE(absl::IsCancelled(first)) << first;
}

// The submission has room at its gate, but no longer when its files have been read.
TEST_F(RequestsTest, RoomIsAskedForAgainWhereTheJobIsMade) {
  ASSERT_TRUE(Create(Spec(), "old").ok());
  v1::CancelJobRequest cancel;
  cancel.set_name("old");
  ASSERT_TRUE(Wait<v1::Job>([&](auto done) { controller_->CancelJob(cancel, done); }).ok());
  HeldCaller caller;
  absl::Notification judged;
  absl::Status late;
  v1::CreateJobRequest request;
  *request.mutable_spec() = Spec();
  request.set_job_id("late");
  controller_->CreateJob(
      request,
      [&](const absl::StatusOr<v1::Job>& job) {
        late = job.status();
        judged.Notify();
      },
      caller.gone());
  caller.asked.WaitForNotification();
  v1::Project project;
  project.set_project("default");
  project.set_max_ended_jobs(1);
  EXPECT_TRUE(Wait<v1::Project>([&](auto done) { controller_->SetProject(project, done); }).ok());
  caller.go_on.Notify();
  judged.WaitForNotification();
  EXPECT_EQ(ErrorReason(late), "QUOTA_ENDED_JOBS") << late;
  EXPECT_TRUE(absl::IsNotFound(Get("late").status()));
}

TEST_F(RequestsTest, AReplayThatIsOnlyValidatedTakesNoPlace) {
  ASSERT_TRUE(Create(Spec(), "source").ok());
  v1::Project project;
  project.set_project("default");
  project.set_max_jobs(2);
  ASSERT_TRUE(Wait<v1::Project>([&](auto done) { controller_->SetProject(project, done); }).ok());
  HeldCaller caller;
  absl::Notification answered;
  v1::CreateReplayRequest replay;
  replay.set_name("source");
  replay.set_validate_only(true);
  controller_->CreateReplay(
      replay, [&](const absl::StatusOr<v1::Replay>&) { answered.Notify(); }, caller.gone());
  caller.asked.WaitForNotification();
  const auto second = Create(Spec(), "second");
  EXPECT_TRUE(second.ok()) << second.status();
  caller.go_on.Notify();
  answered.WaitForNotification();
  const auto refused = Wait<v1::Replay>(
      [&](auto done) { controller_->CreateReplay(replay, done, /*gone=*/nullptr); });
  EXPECT_EQ(ErrorReason(refused.status()), "QUOTA_JOBS") << refused.status();
}

// The first call is under way until the store takes writes again.
TEST_F(RequestsTest, OnlyTheSameCallWaitsForTheOneUnderWay) {
  v1::CreateJobRequest request;
  *request.mutable_spec() = Spec();
  request.set_job_id("add");
  request.set_request_id("one");
  store_->FailWith(absl::ResourceExhaustedError("disk full"));
  absl::Notification answered[2];
  absl::StatusOr<v1::Job> answers[2] = {absl::UnknownError(""), absl::UnknownError("")};
  for (int i = 0; i < 2; ++i) {
    controller_->CreateJob(request, [&, i](absl::StatusOr<v1::Job> answer) {
      answers[i] = std::move(answer);
      answered[i].Notify();
    });
  }
  v1::CreateJobRequest spec = request, name = request;
  spec.mutable_spec()->mutable_rollout()->set_n(4);
  name.set_job_id("sub");
  for (const v1::CreateJobRequest& other : {spec, name}) {
    const auto refused = Wait<v1::Job>([&](auto done) { controller_->CreateJob(other, done); });
    EXPECT_EQ(ErrorReason(refused.status()), "REQUEST_ID_REUSED") << refused.status();
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("with other content"));
  }
  EXPECT_FALSE(answered[0].HasBeenNotified() || answered[1].HasBeenNotified());
  store_->FailWith(absl::OkStatus());
  for (int i = 0; i < 2; ++i) {
    answered[i].WaitForNotification();
    ASSERT_TRUE(answers[i].ok()) << answers[i].status();
  }
  EXPECT_EQ(answers[0]->uid(), answers[1]->uid());
}

TEST_F(RequestsTest, RefusesARequestIdReusedByAnotherMethod) {
  ASSERT_TRUE(Create(Spec(), "add").ok());
  store_->FailWith(absl::ResourceExhaustedError("disk full"));
  v1::PauseJobRequest pause;
  pause.set_name("add");
  pause.set_request_id("one");
  absl::Notification paused;
  controller_->PauseJob(pause, [&](const absl::StatusOr<v1::Job>&) { paused.Notify(); });
  EXPECT_EQ(ErrorReason(Create(Spec(), "sub", "one").status()), "REQUEST_ID_REUSED");
  EXPECT_FALSE(paused.HasBeenNotified());
  store_->FailWith(absl::OkStatus());
  paused.WaitForNotification();
}

// Uncommitted changes are not shown: neither by a refusal nor by an explanation.
TEST_F(RequestsTest, RefusalsAndExplanationsShowOnlyCommittedState) {
  ASSERT_TRUE(Create(Spec(), "add").ok());
  store_->FailWith(absl::ResourceExhaustedError("disk full"));
  v1::CancelJobRequest cancel;
  cancel.set_name("add");
  absl::Notification cancelled, refused;
  controller_->CancelJob(cancel, [&](const absl::StatusOr<v1::Job>&) { cancelled.Notify(); });
  v1::PauseJobRequest pause;
  pause.set_name("add");
  absl::Status refusal;
  controller_->PauseJob(pause, [&](const absl::StatusOr<v1::Job>& answer) {
    refusal = answer.status();
    refused.Notify();
  });
  v1::ExplainJobRequest explain;
  explain.set_name("add");
  const auto why =
      Wait<v1::ExplainJobResponse>([&](auto done) { controller_->ExplainJob(explain, done); });
  ASSERT_TRUE(why.ok()) << why.status();
  EXPECT_THAT(why->summary(), HasSubstr("QUEUED"));
  ASSERT_EQ(why->waits_size(), 1);
  EXPECT_EQ(why->waits(0).kind(), "store");
  EXPECT_FALSE(refused.HasBeenNotified());
  store_->FailWith(absl::OkStatus());
  cancelled.WaitForNotification();
  refused.WaitForNotification();
  EXPECT_EQ(ErrorReason(refusal), "JOB_ENDED");
}

TEST_F(RequestsTest, ADrainOutlivesARestartUntilItIsTakenBack) {
  v1::DrainWorkerRequest drain;
  drain.set_worker_id("w");
  const auto state = [&]() -> std::string {
    const auto list =
        Wait<v1::ListWorkersResponse>([&](auto done) { controller_->ListWorkers({}, done); });
    if (list->workers().empty()) return "none";
    return v1::Worker::State_Name(list->workers(0).state()) + " " + list->workers(0).drain_reason();
  };
  const auto unknown = Wait<v1::Worker>([&](auto done) { controller_->DrainWorker(drain, done); });
  EXPECT_EQ(ErrorReason(unknown.status()), "WORKER_NOT_FOUND");
  store::v1::WorkerRow row;
  row.set_drain_reason("a user asked for it");
  absl::Notification written;
  store_->Commit({{kWorkerTable, "w", row.SerializeAsString()}},
                 [&](const absl::Status&) { written.Notify(); });
  written.WaitForNotification();
  Start();
  EXPECT_EQ(state(), "STATE_DRAINING a user asked for it");
  v1::UndrainWorkerRequest undrain;
  undrain.set_worker_id("w");
  ASSERT_TRUE(Wait<v1::Worker>([&](auto done) { controller_->UndrainWorker(undrain, done); }).ok());
  EXPECT_EQ(state(), "none");
  Start();
  EXPECT_EQ(state(), "none");
  EXPECT_EQ(ErrorReason(Wait<v1::Worker>([&](auto done) {
                          controller_->UndrainWorker(undrain, done);
                        }).status()),
            "WORKER_NOT_FOUND");
}

}  // namespace
}  // namespace baton::controller
