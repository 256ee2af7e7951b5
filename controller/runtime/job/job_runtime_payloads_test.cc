// Payloads of a whole job under a budget. The thread sanitizer runs it, so it links no gRPC.
#include <algorithm>
#include <latch>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "controller/runtime/rows/tables.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/support/controller/small_job.h"

namespace baton::controller {
namespace {

constexpr uint64_t kAmple = uint64_t{1} << 40;

// Threads, files and a store of a controller that has one job.
class OneJob {
 public:
  ~OneJob() { Stop(); }

  void Start(WillingWorkers* workers, uint64_t payload_bytes,
             const std::function<void(v1::JobSpec*)>& edit = nullptr) {
    context_.executors = &executors_;
    context_.clock = &clock_;
    context_.store = &store;
    context_.files = &files;
    context_.workers = workers;
    context_.queue = workers;
    context_.kept = {1000, 1000, 1000};
    context_.payloads = payloads;
    context_.job_payload_bytes = payload_bytes;
    job = std::make_shared<JobRuntime>(&context_, JobCore(SmallJob(edit), 1, context_.core), 1,
                                       /*stored=*/false);
    workers->Serve(job);
    subscription_ = job->Watch(0, end_);
    std::latch started(1);
    job->Start({}, [&started] { started.count_down(); });
    started.wait();
  }
  void WaitForEnd() { end_->WaitForEnd(); }
  void Stop() {
    if (std::exchange(stopped_, true)) return;
    gate_.Close();
    executors_.Join();
    disk_.join();
  }
  v1::ExplainJobResponse Explained() {
    v1::ExplainJobResponse answer;
    std::latch told(1);
    job->Explain([&](const absl::StatusOr<v1::ExplainJobResponse>& why) {
      answer = *why;
      told.count_down();
    });
    told.wait();
    return answer;
  }
  /// Returns when everything that was posted to the job before is done.
  void Settle() {
    std::latch told(1);
    job->Describe([&](const absl::StatusOr<v1::Job>&) { told.count_down(); });
    told.wait();
  }

  store::MemoryStore store;
  FakeJobFiles files{SmallData()};
  std::shared_ptr<PayloadBudget> payloads = std::make_shared<PayloadBudget>(kAmple);

 private:
  bool stopped_ = false;
  boost::asio::thread_pool disk_{2};
  Gate gate_;
  AsioExecutors executors_{{2, 1, 1}, &gate_, &disk_};
  RealClock clock_;
  RuntimeContext context_;
  std::shared_ptr<EndSink> end_ = std::make_shared<EndSink>();
  std::unique_ptr<Subscription> subscription_;

 public:
  std::shared_ptr<JobRuntime> job;  // goes before what it stands on
};

// Holds back its generations until it is told to go on.
class HeldRollouts : public WillingWorkers {
 public:
  ~HeldRollouts() override { Join(); }
  struct Held {
    std::string worker;
    TaskRef ref;
    v1::Task task;
  };
  /// Waits for `count` generations.
  std::vector<Held> Await(size_t count) {
    absl::MutexLock lock(&mu_);
    const auto enough = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) { return held_.size() >= count; };
    EXPECT_TRUE(mu_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(20)));
    return held_;
  }
  void Answer(const Held& held) { WillingWorkers::Do(held.worker, held.ref, held.task); }
  void Fail(const Held& held) {
    v1::TaskResult result;
    result.mutable_status()->set_code(static_cast<int>(absl::StatusCode::kUnavailable));
    job().OnResult(held.worker, held.ref, result);
  }
  void GiveUpLease() {
    std::vector<Held> held;
    {
      absl::MutexLock lock(&mu_);
      holds_ = false;
      held.swap(held_);
    }
    for (const Held& one : held) Answer(one);
  }

 protected:
  void Do(const std::string& worker, const TaskRef& ref, const v1::Task& task) override {
    {
      absl::MutexLock lock(&mu_);
      if (holds_ && task.has_generate()) return held_.push_back({worker, ref, task});
    }
    WillingWorkers::Do(worker, ref, task);
  }

 private:
  absl::Mutex mu_;
  bool holds_ ABSL_GUARDED_BY(mu_) = true;
  std::vector<Held> held_ ABSL_GUARDED_BY(mu_);
};

bool WaitsForPayloads(const v1::ExplainJobResponse& why) {
  return std::any_of(why.waits().begin(), why.waits().end(),
                     [](const v1::Wait& wait) { return wait.kind() == "payloads"; });
}

// The disk takes nothing: one response waits for the log, and is more than the budget. A generation
// that fails meanwhile is not assigned again before there is room.
TEST(JobRuntimePayloadsTest, PromptsWaitWhileTheLogHasTooMuchToWrite) {
  for (const bool of_job : {true, false}) {
    OneJob world;
    HeldRollouts workers;
    if (!of_job) world.payloads = std::make_shared<PayloadBudget>(1);
    world.files.SetFull(true);
    world.Start(&workers, of_job ? 1 : kAmple);
    const auto first = workers.Await(8);
    EXPECT_FALSE(WaitsForPayloads(world.Explained()));
    workers.Answer(first[0]);
    workers.Fail(first[1]);
    world.Settle();
    EXPECT_GT(world.payloads->unwritten(), 0u);
    const v1::ExplainJobResponse why = world.Explained();
    EXPECT_TRUE(WaitsForPayloads(why)) << why.DebugString();
    EXPECT_EQ(workers.Await(8).size(), 8u) << "no prompt is begun";
    world.files.SetFull(false);
    workers.Await(9);  // it goes on by itself
    world.Settle();
    EXPECT_FALSE(WaitsForPayloads(world.Explained()));
    workers.GiveUpLease();
    world.WaitForEnd();
    world.Stop();
    EXPECT_EQ(world.job->state(), v1::Job::STATE_SUCCEEDED);
    EXPECT_EQ(world.payloads->cached() + world.payloads->unwritten() + world.payloads->batches(),
              0u);
  }
}

// The write of a response waits for room on the disk when its job is deleted. Once there is room,
// it is not written, because that would make the folder anew.
TEST(JobRuntimePayloadsTest, ADeletedJobWritesNoMore) {
  OneJob world;
  HeldRollouts workers;
  world.files.SetFull(true);
  world.Start(&workers, kAmple);
  workers.Answer(workers.Await(8)[0]);
  world.Settle();
  ASSERT_GT(world.payloads->unwritten(), 0u);
  world.job->Post(CancelRequested{});
  world.Settle();
  std::latch removed(1);
  world.job->RemoveFiles([&](const absl::Status&) { removed.count_down(); });
  removed.wait();
  world.files.SetFull(false);
  const absl::Time end = absl::Now() + absl::Seconds(20);
  while (world.payloads->unwritten() > 0 && absl::Now() < end) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(world.payloads->unwritten(), 0u) << "the write was given up";
  EXPECT_EQ(world.files.records(), 0u);
  EXPECT_TRUE(world.job->disk_health().ok());
  world.Stop();
}

// Columns of a response are answered once all are requested, the last node's first. Roles that
// train read their batch first.
class Readers : public WillingWorkers {
 public:
  ~Readers() override { Join(); }
  explicit Readers(size_t column_nodes) : column_nodes_(column_nodes) {}
  /// The batches as they were fetched, by their ids.
  std::map<std::string, std::string> batches() {
    absl::MutexLock lock(&mu_);
    return batches_;
  }

 protected:
  void Do(const std::string& worker, const TaskRef& ref, const v1::Task& task) override {
    if (task.has_update()) return Fetch(worker, ref, task);
    if (!task.has_score() || task.role() == "reward") return WillingWorkers::Do(worker, ref, task);
    absl::MutexLock lock(&mu_);
    auto& asked = asked_[ref.subject];
    asked[ref.target] = {worker, ref};
    if (asked.size() < column_nodes_) return;
    for (auto it = asked.rbegin(); it != asked.rend(); ++it) {
      v1::TaskResult result;
      for (const char* column : {"old_log_prob", "ref_log_prob", "values"}) {
        const float value = -0.25F * static_cast<float>(it->first + 1);
        AddResultColumn<float>(result, column, v1::DATA_TYPE_FLOAT32, {value, value});
      }
      job().OnResult(it->second.first, it->second.second, result);
    }
    asked_.erase(ref.subject);
  }

 private:
  void Fetch(const std::string& worker, const TaskRef& ref, const v1::Task& task) {
    v1::FetchBatchRequest request;
    request.set_batch_id(task.update().batch_id());
    request.set_capability(task.update().capability());
    job().FetchBatch(request, [=, this](const absl::StatusOr<BatchPart>& part) {
      ASSERT_TRUE(part.ok()) << part.status();
      part->Post([=, this, part = *part] {
        std::string all;
        for (size_t i = 0; i < part.size(); ++i) {
          absl::StatusOr<v1::Trajectory> one = part.At(i);
          while (absl::IsUnavailable(one.status())) one = part.At(i);  // as a rank fetches again
          ASSERT_TRUE(one.ok()) << one.status();
          std::string text;  // maps in one order
          google::protobuf::TextFormat::PrintToString(*one, &text);
          absl::StrAppend(&all, text, "\n");
        }
        {
          absl::MutexLock lock(&mu_);
          batches_[absl::StrCat(task.role(), " ", request.batch_id())] = all;
        }
        job().OnResult(worker, ref, v1::TaskResult());
      });
    });
  }

  const size_t column_nodes_;
  absl::Mutex mu_;
  std::map<uint64_t, std::map<uint32_t, std::pair<std::string, TaskRef>>> asked_
      ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::string> batches_ ABSL_GUARDED_BY(mu_);
};

TEST(JobRuntimePayloadsTest, ABatchIsTheSameBytesIfMemoryHasRoomForNoPayload) {
  const auto ppo = [](v1::JobSpec* spec) {
    spec->mutable_algorithm()->set_preset("ppo");
    spec->mutable_algorithm()->set_recompute_log_prob(true);
  };
  size_t column_nodes = 0;
  const v1::Job job = SmallJob(ppo);
  for (const v1::ScoreNode& node : job.dataflow().score()) {
    column_nodes += node.role() == "reward" ? 0 : 1;
  }
  ASSERT_GE(column_nodes, 2u);
  std::map<std::string, std::string> batches;
  std::vector<std::string> rows;
  size_t reads = 0;
  for (const uint64_t budget : {kAmple, uint64_t{1}}) {
    OneJob world;
    Readers workers(column_nodes);
    world.Start(&workers, budget, ppo);
    world.WaitForEnd();
    world.Stop();
    ASSERT_EQ(world.job->state(), v1::Job::STATE_SUCCEEDED) << world.job->Brief().error().message();
    std::vector<std::string> hashes;
    const auto stored = world.store.Scan(kBatchTable, {});
    ASSERT_TRUE(stored.ok());
    for (const store::Row& row : *stored) {
      store::v1::BatchRow batch;
      ASSERT_TRUE(batch.ParseFromString(row.value));
      for (const store::v1::BatchEntry& entry : batch.entries()) {
        hashes.push_back(absl::StrJoin(entry.column_hashes(), " "));
        EXPECT_GT(entry.column_hashes_size(), 4);
      }
    }
    if (budget == kAmple) {
      batches = workers.batches();
      rows = hashes;
      EXPECT_EQ(world.files.reads(), 0u);
      EXPECT_FALSE(batches.empty());
    } else {
      EXPECT_EQ(workers.batches(), batches);
      EXPECT_EQ(hashes, rows);
      reads = world.files.reads();
    }
  }
  EXPECT_GT(reads, 0u);
}

// The controller has no file descriptor left for a while: unreadable payloads are not lost, and no
// response is generated again.
TEST(JobRuntimePayloadsTest, RetriesPayloadsThatCannotBeReadForNow) {
  std::map<std::string, std::string> batches;
  size_t records = 0;
  for (const bool fails : {false, true}) {
    OneJob world;
    Readers workers(/*column_nodes=*/1);
    if (fails) world.files.FailSomeReads();
    world.Start(&workers, /*payload_bytes=*/1);
    world.WaitForEnd();
    world.Stop();
    ASSERT_EQ(world.job->state(), v1::Job::STATE_SUCCEEDED) << world.job->Brief().error().message();
    EXPECT_GT(world.files.reads(), 0u);
    if (fails) {
      EXPECT_EQ(workers.batches(), batches);
      EXPECT_EQ(world.files.records(), records);
    }
    batches = workers.batches();
    records = world.files.records();
  }
}

}  // namespace
}  // namespace baton::controller
