// Quarantine: a job that cannot be restored is quarantined, and the others go on.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "controller/runtime/controller/controller.h"
#include "controller/runtime/rows/restore_marks.h"
#include "controller/runtime/rows/tables.h"
#include "controller/store/sqlite_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"
#include "sdk/common/rpc/error.h"
#include "tests/support/controller/controller.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kBad[] = "projects/default/jobs/bad";

/// Records how a watch ends.
class Ending : public EventSink {
 public:
  bool OnEvent(const v1::JobEvent& event) override {
    absl::MutexLock lock(&mu_);
    last_ = event;
    return true;
  }
  void OnEnd(absl::Status) override { ended_.Notify(); }
  v1::JobEvent Wait() {
    ended_.WaitForNotification();
    absl::MutexLock lock(&mu_);
    return last_;
  }

 private:
  absl::Mutex mu_;
  v1::JobEvent last_ ABSL_GUARDED_BY(mu_);
  absl::Notification ended_;
};

/// A store that ends the process when the log of one job is read, as its restoration does.
class DeadlyStore : public SharedStore {
 public:
  using SharedStore::SharedStore;
  absl::StatusOr<std::vector<store::Row>> Scan(absl::string_view table,
                                               const store::ScanOptions& options) override {
    if (table == kLogTable && absl::StartsWith(options.begin, kBad)) ::raise(SIGKILL);
    return SharedStore::Scan(table, options);
  }
};

/// A store in which a write of one job makes its turn throw, or the process die.
class PoisonedStore : public SharedStore {
 public:
  PoisonedStore(std::unique_ptr<store::Store> store, bool deadly)
      : SharedStore(std::move(store)), deadly_(deadly) {}
  void Commit(std::vector<store::Write> writes, store::Durability durability, Done done) override {
    for (const store::Write& write : writes) {
      if (write.table != kJobTable || write.key != kBad || !armed_) continue;
      if (deadly_) ::raise(SIGKILL);
      throw std::length_error("a poisoned number");
    }
    SharedStore::Commit(std::move(writes), durability, std::move(done));
  }
  void Arm() { armed_ = true; }

 private:
  const bool deadly_;
  std::atomic<bool> armed_ = false;
};

class ControllerQuarantineTest : public ::testing::Test {
 protected:
  ControllerQuarantineTest() {
    folder_.Write("train.jsonl", "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n");
    Start();
    for (const char* id : {"bad", "good"}) {
      v1::CreateJobRequest request;
      *request.mutable_spec() = Spec();
      request.set_job_id(id);
      const auto job = Wait<v1::Job>([&](auto done) { controller_->CreateJob(request, done); });
      EXPECT_TRUE(job.ok()) << job.status();
    }
  }

  absl::StatusOr<std::unique_ptr<Controller>> Open(ControllerOptions options, bool deadly) {
    auto store = store::SqliteStore::Open(folder_.path("baton.db"));
    if (!store.ok()) return store.status();
    options.data_root = folder_.path();
    options.store = *std::move(store);
    if (deadly) options.store = std::make_unique<DeadlyStore>(std::move(options.store));
    return Controller::Create(std::move(options));
  }
  absl::Status TryStart(ControllerOptions options = {}) {
    controller_.reset();
    auto controller = Open(std::move(options), /*deadly=*/false);
    if (controller.ok()) controller_ = *std::move(controller);
    return controller.status();
  }
  void Start(ControllerOptions options = {}) {
    const absl::Status started = TryStart(std::move(options));
    ASSERT_TRUE(started.ok()) << started;
  }
  /// A controller process that dies when it restores job `bad`.
  void DieRestoring() {
    controller_.reset();
    const pid_t child = ::fork();
    if (child == 0) {
      const auto controller = Open({}, /*deadly=*/true);
      ::_exit(controller.ok() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  }
  absl::StatusOr<v1::Job> Pause(const std::string& name) {
    v1::PauseJobRequest request;
    request.set_name(name);
    return Wait<v1::Job>([&](auto done) { controller_->PauseJob(request, done); });
  }
  /// Opens a controller over a poisoned store.
  std::unique_ptr<Controller> OpenPoisoned(bool deadly, PoisonedStore** store) {
    auto opened = store::SqliteStore::Open(folder_.path("baton.db"));
    if (!opened.ok()) return nullptr;
    ControllerOptions options;
    options.data_root = folder_.path();
    auto poisoned = std::make_unique<PoisonedStore>(*std::move(opened), deadly);
    *store = poisoned.get();
    options.store = std::move(poisoned);
    auto controller = Controller::Create(std::move(options));
    return controller.ok() ? *std::move(controller) : nullptr;
  }
  /// A controller process that restores everything, and dies in a later turn of job `bad`.
  void DieInATurn() {
    controller_.reset();
    const pid_t child = ::fork();
    if (child == 0) {
      PoisonedStore* store = nullptr;
      controller_ = OpenPoisoned(/*deadly=*/true, &store);
      if (controller_ == nullptr || !Get("bad").has_spec()) ::_exit(1);
      store->Arm();
      (void)Pause("bad");
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  }
  /// As if the job had done a step.
  void MakeStep(int64_t step) {
    store::v1::JobRow row;
    ASSERT_TRUE(row.ParseFromString(Row(kJobTable, kBad)));
    row.mutable_job()->set_step(step);
    Write({{kJobTable, kBad, row.SerializeAsString()}});
  }
  /// A row of the store while no controller uses the store.
  std::string Row(const char* table, const std::string& key) {
    controller_.reset();
    auto store = store::SqliteStore::Open(folder_.path("baton.db"));
    EXPECT_TRUE(store.ok()) << store.status();
    return (*store)->Get(table, key)->value_or("");
  }
  void Write(std::vector<store::Write> writes) {
    controller_.reset();
    auto store = store::SqliteStore::Open(folder_.path("baton.db"));
    ASSERT_TRUE(store.ok()) << store.status();
    absl::Notification written;
    (*store)->Commit(std::move(writes), [&](const absl::Status&) { written.Notify(); });
    written.WaitForNotification();
  }

  v1::JobSpec Spec() const {
    v1::JobSpec spec;
    spec.set_kind(v1::JOB_KIND_RL);
    spec.mutable_model()->mutable_init()->set_characters("0123456789+=");
    spec.mutable_data()->add_train_files(folder_.path("train.jsonl"));
    spec.mutable_data()->set_max_response_length(8);
    spec.mutable_reward()->add_rules()->set_type("exact_match");
    spec.mutable_trainer()->set_total_training_steps(9);
    return spec;
  }
  v1::Job Get(const std::string& name) {
    v1::GetJobRequest request;
    request.set_name(name);
    const auto job = Wait<v1::Job>([&](auto done) { controller_->GetJob(request, done); });
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? *job : v1::Job();
  }
  std::string Why(const std::string& name) {
    v1::ExplainJobRequest request;
    request.set_name(name);
    const auto why =
        Wait<v1::ExplainJobResponse>([&](auto done) { controller_->ExplainJob(request, done); });
    return why.ok() ? why->summary() : std::string(why.status().message());
  }
  void ExpectQuarantined(const std::string& reason) {
    const v1::Job bad = Get("bad");
    EXPECT_EQ(bad.state(), v1::Job::STATE_FAILED);
    EXPECT_EQ(ErrorReason(FromProto(bad.error())), "QUARANTINED");
    EXPECT_THAT(bad.error().message(), HasSubstr(reason));
    EXPECT_THAT(Why("bad"), HasSubstr(reason));
    EXPECT_THAT(Why("bad"), HasSubstr(absl::StrCat("--unquarantine ", kBad)));
    EXPECT_EQ(Get("good").state(), v1::Job::STATE_QUEUED);
  }

  const TestFolder folder_;
  std::unique_ptr<Controller> controller_;
};

TEST_F(ControllerQuarantineTest, QuarantinesAJobAfterTwoDeathsDuringItsRestoration) {
  const v1::Job before = Get("bad");
  const std::string row = Row(kJobTable, kBad);
  DieRestoring();
  DieRestoring();
  Start();
  ExpectQuarantined("the controller died 2 times under the work for this job");
  EXPECT_EQ(Get("bad").uid(), before.uid());
  EXPECT_EQ(Get("bad").spec().DebugString(), before.spec().DebugString());
  Start();  // and it stays so
  ExpectQuarantined("the controller died 2 times");
  EXPECT_EQ(Row(kJobTable, kBad), row);

  ControllerOptions back;
  back.unquarantine = {"bad"};
  Start(std::move(back));
  EXPECT_EQ(Get("bad").state(), v1::Job::STATE_QUEUED);
  EXPECT_EQ(Get("bad").error().message(), "");
}

TEST_F(ControllerQuarantineTest, DoesNotQuarantineAJobAfterOneDeathInEachStep) {
  for (int64_t step = 1; step <= 3; ++step) {
    DieRestoring();
    Start();
    EXPECT_EQ(Get("bad").state(), v1::Job::STATE_QUEUED) << step;
    EXPECT_NE(Why("bad"), "");  // its first turn is over
    MakeStep(step);
  }
  Start();
  EXPECT_NE(Why("bad"), "");
  EXPECT_EQ(Row(kRestoreTable, kBad), "") << "no death counts against it any more";
}

// The job's restoration succeeded both times; a later turn of it killed the controller.
TEST_F(ControllerQuarantineTest, QuarantinesAJobAfterTwoDeathsInItsLaterTurns) {
  DieInATurn();
  Start();
  EXPECT_EQ(Get("bad").state(), v1::Job::STATE_QUEUED);
  EXPECT_NE(Why("bad"), "");
  DieInATurn();
  Start();
  ExpectQuarantined("the controller died 2 times under the work for this job");
}

// The turn of one job throws: the process lives, and only that job stops.
TEST_F(ControllerQuarantineTest, QuarantinesAJobWhoseTurnThrows) {
  const std::string row = Row(kJobTable, kBad);
  controller_.reset();
  PoisonedStore* store = nullptr;
  controller_ = OpenPoisoned(/*deadly=*/false, &store);
  ASSERT_NE(controller_, nullptr);
  v1::WatchJobRequest watch;
  watch.set_name("bad");
  auto ending = std::make_shared<Ending>();
  const auto subscription = controller_->WatchJob(watch, ending);
  EXPECT_NE(Why("bad"), "");
  store->Arm();
  const auto paused = Pause("bad");  // it is answered
  ASSERT_TRUE(paused.ok()) << paused.status();
  EXPECT_EQ(paused->state(), v1::Job::STATE_FAILED);
  EXPECT_EQ(ending->Wait().state(), v1::Job::STATE_FAILED);
  ExpectQuarantined("a poisoned number");
  EXPECT_EQ(Pause("good")->state(), v1::Job::STATE_PAUSED);
  EXPECT_EQ(Row(kJobTable, kBad), row);
  Start();  // and it stays so
  EXPECT_EQ(ErrorReason(FromProto(Get("bad").error())), "QUARANTINED");
  ControllerOptions back;
  back.unquarantine = {"bad"};
  Start(std::move(back));
  EXPECT_EQ(Get("bad").state(), v1::Job::STATE_QUEUED);
  EXPECT_EQ(Get("good").state(), v1::Job::STATE_PAUSED);
}

TEST_F(ControllerQuarantineTest, QuarantinesAJobWhoseRowsAreDamaged) {
  const std::string row = Row(kJobTable, kBad), spec = Row(kSpecTable, kBad);
  store::v1::JobRow without_slots;
  ASSERT_TRUE(without_slots.ParseFromString(row));
  without_slots.clear_slots();
  // A setting that no spec may have: a core of it would have billions of slots.
  v1::Job huge;
  ASSERT_TRUE(huge.ParseFromString(spec));
  huge.mutable_effective_spec()->mutable_resources()->set_rollout_workers(2'000'000'000);
  const std::vector<std::pair<std::vector<store::Write>, std::string>> damages = {
      {{{kJobTable, kBad, "\xff\xff"}}, "is damaged"},
      {{{kJobTable, kBad, without_slots.SerializeAsString()}}, "slots"},
      {{{kSpecTable, kBad, std::nullopt}}, "the spec of job"},
      {{{kSpecTable, kBad, huge.SerializeAsString()}}, "spec.resources.rollout_workers"},
      {{{kLogTable, absl::StrCat(kBad, "#not-a-number"), ""}}, "cannot be restored"}};
  for (const auto& [damage, reason] : damages) {
    Write(damage);
    Start();
    ExpectQuarantined(reason);
    Write({{kJobTable, kBad, row},
           {kSpecTable, kBad, spec},
           {kLogTable, absl::StrCat(kBad, "#not-a-number"), std::nullopt}});
    Start();  // once repaired, it goes on by itself
    EXPECT_EQ(Get("bad").state(), v1::Job::STATE_QUEUED) << reason;
  }
}

TEST_F(ControllerQuarantineTest, QuarantinesAndReleasesAJobByOption) {
  fs::create_directories(folder_.path("jobs/default/bad/checkpoints/step-1"));
  ControllerOptions options;
  options.quarantine = {"bad"};
  Start(std::move(options));
  ExpectQuarantined("by hand");
  Start();
  ExpectQuarantined("by hand");
  EXPECT_TRUE(fs::exists(folder_.path("jobs/default/bad/checkpoints/step-1")));
  ControllerOptions nobody;
  nobody.quarantine = {"nobody"};
  EXPECT_EQ(TryStart(std::move(nobody)).code(), absl::StatusCode::kNotFound);
  ControllerOptions back;
  back.unquarantine = {kBad};
  Start(std::move(back));
  EXPECT_EQ(Get("bad").state(), v1::Job::STATE_QUEUED);
}

// The job's specs are shown as they are in its rows, but are not used for anything else.
TEST_F(ControllerQuarantineTest, ABadSpecIsNotTakenOverByOtherJobs) {
  v1::Job huge;
  ASSERT_TRUE(huge.ParseFromString(Row(kSpecTable, kBad)));
  huge.mutable_effective_spec()->mutable_resources()->set_rollout_workers(2'000'000'000);
  Write({{kSpecTable, kBad, huge.SerializeAsString()}});
  Start();
  ExpectQuarantined("spec.resources.rollout_workers");
  v1::CreateReplayRequest replay;
  replay.set_name("bad");
  const auto replayed = Wait<v1::Replay>([&](auto d) { controller_->CreateReplay(replay, d); });
  EXPECT_EQ(ErrorReason(replayed.status()), "REPLAY_KIND") << replayed.status();
  v1::CreateJobRequest seeded;
  *seeded.mutable_spec() = Spec();
  seeded.mutable_spec()->mutable_rollout()->mutable_speculation()->set_seed_from("job:bad");
  const auto refused = Wait<v1::Job>([&](auto d) { controller_->CreateJob(seeded, d); });
  ASSERT_EQ(ErrorViolations(refused.status()).size(), 1u) << refused.status();
  EXPECT_EQ(ErrorViolations(refused.status())[0].field(), "spec.rollout.speculation.seed_from");
  EXPECT_THAT(ErrorViolations(refused.status())[0].description(), HasSubstr("rollout_workers"));
}

// The job has a checkpoint, but the stand-in for it could not go on from there.
TEST_F(ControllerQuarantineTest, RefusesToResumeAQuarantinedJob) {
  v1::Checkpoint checkpoint;
  checkpoint.set_step(1);
  checkpoint.set_path(folder_.path("jobs/default/bad/checkpoints/step-1"));
  fs::create_directories(checkpoint.path());
  Write({{kCheckpointTable, NumberKey(kBad, 1), checkpoint.SerializeAsString()}});
  ControllerOptions options;
  options.quarantine = {"bad"};
  Start(std::move(options));
  v1::ResumeJobRequest resume;
  resume.set_name("bad");
  const auto resumed = Wait<v1::Job>([&](auto d) { controller_->ResumeJob(resume, d); });
  EXPECT_EQ(ErrorReason(resumed.status()), "QUARANTINED") << resumed.status();
  EXPECT_EQ(Get("bad").state(), v1::Job::STATE_FAILED);
  v1::ExplainJobRequest why;
  why.set_name("bad");
  const auto told = Wait<v1::ExplainJobResponse>([&](auto d) { controller_->ExplainJob(why, d); });
  ASSERT_TRUE(told.ok()) << told.status();
  EXPECT_THAT(told->summary(), HasSubstr("--unquarantine"));
  EXPECT_THAT(told->summary(), ::testing::Not(HasSubstr("`baton resume bad`")));
}

TEST_F(ControllerQuarantineTest, AQuarantinedJobCanBeWatchedCancelledAndDeleted) {
  ControllerOptions options;
  options.quarantine = {"bad"};
  Start(std::move(options));
  v1::WatchJobRequest watch;
  watch.set_name("bad");
  auto ending = std::make_shared<Ending>();
  const auto subscription = controller_->WatchJob(watch, ending);
  EXPECT_EQ(ending->Wait().state(), v1::Job::STATE_FAILED);
  v1::CancelJobRequest cancel;
  cancel.set_name("bad");
  EXPECT_TRUE(Wait<v1::Job>([&](auto d) { controller_->CancelJob(cancel, d); }).ok());
  EXPECT_EQ(Get("bad").state(), v1::Job::STATE_FAILED);
  v1::DeleteJobRequest forget;
  forget.set_name("bad");
  ASSERT_TRUE(Wait<v1::DeleteJobResponse>([&](auto d) { controller_->DeleteJob(forget, d); }).ok());
  EXPECT_EQ(Row(kRestoreTable, kBad), "");
  EXPECT_EQ(Row(kJobTable, kBad), "");
  Start();
  EXPECT_EQ(Get("good").state(), v1::Job::STATE_QUEUED);
}

// Numbers within their own bounds, but too large together: one accepted spec could make the
// controller use too much memory.
TEST_F(ControllerQuarantineTest, ASpecWhoseProductIsTooLargeIsRefused) {
  v1::CreateJobRequest request;
  *request.mutable_spec() = Spec();
  request.mutable_spec()->mutable_data()->set_train_batch_size(65536);
  request.mutable_spec()->mutable_rollout()->set_n(1024);
  const auto create = [&] {
    return Wait<v1::Job>([&](auto done) { controller_->CreateJob(request, done); }).status();
  };
  EXPECT_THAT(std::string(create().message()),
              HasSubstr("spec.data.train_batch_size x spec.rollout.n = 67,108,864 responses"));
  request.mutable_spec()->mutable_data()->set_train_batch_size(4);
  request.mutable_spec()->mutable_rollout()->set_n(4);
  v1::Project project;
  project.set_project("default");
  project.set_max_step_responses(15);
  ASSERT_TRUE(Wait<v1::Project>([&](auto d) { controller_->SetProject(project, d); }).ok());
  EXPECT_THAT(std::string(create().message()), HasSubstr("= 16 responses of a step, at most 15"));
  project.set_max_step_responses(0);
  project.set_max_step_tokens(-1);
  EXPECT_FALSE(Wait<v1::Project>([&](auto d) { controller_->SetProject(project, d); }).ok());
  project.set_max_step_tokens(16512);  // 16 x (1024 + 8)
  ASSERT_TRUE(Wait<v1::Project>([&](auto d) { controller_->SetProject(project, d); }).ok());
  EXPECT_TRUE(create().ok()) << create();
  request.mutable_spec()->mutable_data()->add_val_files(folder_.path("train.jsonl"));
  request.mutable_spec()->mutable_rollout()->mutable_val()->set_n(17);
  EXPECT_THAT(std::string(create().message()),
              HasSubstr("= 17,544 tokens of an evaluation, at most 16,512"));
  request.mutable_spec()->mutable_data()->set_val_files(0, "/dev/zero");
  EXPECT_THAT(std::string(create().message()), HasSubstr("/dev/zero: is not a file"));
  ControllerOptions small;
  small.max_data_bytes = 10;
  Start(std::move(small));
  request.mutable_spec()->mutable_data()->clear_val_files();
  EXPECT_THAT(std::string(create().message()), HasSubstr("bytes together, at most 10"));
}

TEST(RestoreMarksTest, KeepsOpenMarksAfterTheProcessDies) {
  const std::string path = ::testing::TempDir() + "restore_marks";
  fs::remove(path);
  const pid_t child = ::fork();
  if (child == 0) {
    auto marks = RestoreMarks::Open(path);
    const auto one = (*marks)->On("one");
    const auto again = (*marks)->On("one");
    { const auto over = (*marks)->On("over"); }
    const auto two = (*marks)->On("two");
    ::_exit(0);  // no destructor runs
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  {
    const auto marks = RestoreMarks::Open(path);
    ASSERT_TRUE(marks.ok()) << marks.status();
    EXPECT_THAT((*marks)->left(), ElementsAre("one", "two"));
    std::vector<RestoreMarks::Mark> many;
    for (int i = 0; i < 100; ++i) many.push_back((*marks)->On(absl::StrCat("job-", i)));
  }
  const auto after = RestoreMarks::Open(path);
  EXPECT_THAT((*after)->left(), IsEmpty());
  std::ofstream(path) << "short";
  EXPECT_THAT((*RestoreMarks::Open(path))->left(), ElementsAre("short"));
  EXPECT_FALSE(RestoreMarks::Open("/nowhere/at/all").ok());
  fs::remove(path);
}

}  // namespace
}  // namespace baton::controller
