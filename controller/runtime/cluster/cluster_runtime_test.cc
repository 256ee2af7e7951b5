#include "controller/runtime/cluster/cluster_runtime.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "controller/ports/single_thread.h"
#include "controller/store/memory_store.h"
#include "gtest/gtest.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

// A worker's end of a stream, on one thread.
struct PlainStream : public WorkerStream {
  void Send(v1::ControllerMessage message) override { sent.push_back(std::move(message)); }
  void Close(absl::Status status) override { closed = ErrorReason(status); }
  std::vector<v1::ControllerMessage> sent;
  std::string closed;
};

// Something happens on another thread just when the time is read next.
struct InterruptedClock : public Clock {
  absl::Time Now() const override {
    if (interrupt) std::exchange(interrupt, nullptr)();
    return now;
  }
  absl::Time now = absl::UnixEpoch() + absl::Hours(1);
  mutable std::function<void()> interrupt;
};

class ClusterRuntimeTest : public testing::Test {
 protected:
  ClusterRuntimeTest() {
    context_.clock = &clock_;
    context_.store = &store_;
    context_.epoch = 1;
    cluster_ =
        std::make_unique<ClusterRuntime>(&context_, ClusterOptions(), thread_.NewStrand(), &jobs_);
  }

  struct Attached {
    std::shared_ptr<PlainStream> stream = std::make_shared<PlainStream>();
    std::unique_ptr<WorkerSession> session;
  };
  Attached Attach(const std::string& worker, bool generates = false) {
    Attached attached;
    attached.session = cluster_->Attach(attached.stream);
    v1::WorkerMessage message;
    message.mutable_hello()->set_worker_id(worker);
    message.mutable_hello()->set_instance_id("a");
    message.mutable_hello()->set_protocol_min(1);
    message.mutable_hello()->set_protocol_max(1);
    if (generates) {
      v1::MethodCredits* method = message.mutable_hello()->add_methods();
      method->set_role("rollout");
      method->set_method("generate");
      method->set_credits(8);
    }
    attached.session->OnMessage(message);
    thread_.Settle();
    return attached;
  }
  static v1::WorkerMessage Heartbeat() {
    v1::WorkerMessage message;
    message.mutable_heartbeat()->set_sequence(1);
    return message;
  }

  InterruptedClock clock_;
  store::MemoryStore store_;
  SingleThread thread_;
  RuntimeContext context_;
  JobTable jobs_;
  std::unique_ptr<ClusterRuntime> cluster_;
};

// A job leaves the queue at the moment at which a lease would end. The heartbeat was answered just
// before.
TEST_F(ClusterRuntimeTest, AnAnsweredHeartbeatRenewsTheLease) {
  const Attached worker = Attach("w");
  ASSERT_EQ(worker.stream->sent.size(), 1u);
  const absl::Time end = clock_.now + ClusterOptions().lease;
  clock_.now = end - absl::Seconds(1);
  cluster_->Leave("projects/default/jobs/j");
  clock_.interrupt = [&] {
    clock_.now = end - absl::Milliseconds(1);
    worker.session->OnMessage(Heartbeat());
    clock_.now = end;
  };
  thread_.Settle();
  EXPECT_EQ(worker.stream->sent.size(), 2u) << "it was answered";
  EXPECT_EQ(worker.stream->closed, "");
}

TEST_F(ClusterRuntimeTest, ALateHeartbeatEndsItsStream) {
  const Attached worker = Attach("w");
  clock_.now += ClusterOptions().lease;
  worker.session->OnMessage(Heartbeat());
  EXPECT_EQ(worker.stream->sent.size(), 1u);
  EXPECT_EQ(worker.stream->closed, "LEASE_ENDED");
}

// The end of a broken stream is reported late: it takes nothing from the worker's next stream.
TEST_F(ClusterRuntimeTest, IgnoresLateMessagesOfAReplacedStream) {
  const Attached before = Attach("w");
  const Attached after = Attach("w");
  EXPECT_EQ(before.stream->closed, "SESSION_REPLACED");
  before.session->OnMessage(Heartbeat());
  before.session->OnClosed();
  thread_.Settle();
  EXPECT_EQ(before.stream->sent.size(), 1u) << "only its Welcome";
  cluster_->directory().Send("w", v1::ControllerMessage());
  EXPECT_EQ(after.stream->sent.size(), 2u);
  after.session->OnMessage(Heartbeat());
  EXPECT_EQ(after.stream->sent.size(), 3u);
  EXPECT_EQ(after.stream->closed, "");
}

// The job ended, and left memory, while its grant was on its way. Nothing else would ever give the
// worker back.
TEST_F(ClusterRuntimeTest, AWorkerOfAJobThatIsGoneIsFree) {
  const Attached worker = Attach("w", /*generates=*/true);
  cluster_->Post([this] {
    cluster_->Apply(cluster_->core().OnNeed("projects/default/jobs/gone", 0, 1, false,
                                            {{"rollout", 1}}, cluster_->now()));
  });
  thread_.Settle();
  const std::vector<v1::Worker> workers = cluster_->core().workers().List(cluster_->now());
  ASSERT_EQ(workers.size(), 1u);
  EXPECT_EQ(workers[0].job(), "");
}

// A job that is quarantined tells its workers nothing, so the queue frees them.
TEST_F(ClusterRuntimeTest, TheWorkersOfAQuarantinedJobAreFreed) {
  constexpr char kJob[] = "projects/default/jobs/j";
  const auto attach = [&] {
    Attached attached;
    attached.session = cluster_->Attach(attached.stream);
    v1::WorkerMessage message;
    v1::Hello& hello = *message.mutable_hello();
    hello.set_worker_id("w");
    hello.set_instance_id("a");
    hello.set_protocol_min(1);
    hello.set_protocol_max(1);
    hello.set_epoch_seen(1);
    v1::RoleHeld* held = hello.add_roles_held();
    held->set_job(kJob);
    held->set_role("actor");
    attached.session->OnMessage(message);
    thread_.Settle();
    return attached;
  };
  const Attached before = attach();
  ASSERT_EQ(before.stream->sent.size(), 1u);
  cluster_->core().Expect(kJob, "w", "actor", clock_.now);
  ASSERT_EQ(cluster_->core().workers().JobOf("w"), kJob);
  cluster_->Quarantine(kJob);
  thread_.Settle();
  EXPECT_EQ(before.stream->closed, "JOB_QUARANTINED");
  EXPECT_FALSE(cluster_->core().workers().Knows("w"));
  before.session->OnClosed();
  const Attached after = attach();
  EXPECT_EQ(cluster_->core().workers().JobOf("w"), "");
  ASSERT_EQ(after.stream->sent.size(), 1u);
  ASSERT_EQ(after.stream->sent[0].welcome().release_size(), 1);
  EXPECT_EQ(after.stream->sent[0].welcome().release(0).role(), "actor");
  EXPECT_EQ(after.stream->closed, "");
}

TEST_F(ClusterRuntimeTest, ADrainOutlivesTheController) {
  const Attached worker = Attach("w");
  absl::StatusOr<v1::Worker> drained = absl::UnknownError("no answer");
  cluster_->Drain("w", [&](auto answer) { drained = std::move(answer); });
  thread_.Settle();
  ASSERT_TRUE(drained.ok()) << drained.status();
  EXPECT_EQ(drained->state(), v1::Worker::STATE_DRAINING);
  ClusterRuntime next(&context_, ClusterOptions(), thread_.NewStrand(), &jobs_);
  ASSERT_TRUE(next.ReadDrains(store_).ok());
  EXPECT_TRUE(next.core().workers().Knows("w"));
  cluster_->Drain("unknown", [&](auto answer) { drained = std::move(answer); });
  thread_.Settle();
  EXPECT_EQ(ErrorReason(drained.status()), "WORKER_NOT_FOUND");
}

TEST_F(ClusterRuntimeTest, ClosesTheStreamOnAnOversizedTaskToken) {
  const Attached worker = Attach("w");
  v1::WorkerMessage message;
  message.mutable_result()->set_task_token(std::string(1025, 't'));
  worker.session->OnMessage(message);
  EXPECT_EQ(worker.stream->closed, "PROTOCOL");
}

// A worker that goes on sending without waiting for its Welcome fills no memory.
TEST_F(ClusterRuntimeTest, BoundsMessagesBeforeTheWelcome) {
  const auto stream = std::make_shared<PlainStream>();
  const auto session = cluster_->Attach(stream);
  v1::WorkerMessage hello;
  hello.mutable_hello()->set_worker_id("w");
  session->OnMessage(hello);  // the strand does not run: no Welcome comes
  v1::WorkerMessage message;
  message.mutable_result()->set_task_token("token");
  message.mutable_result()->add_columns()->set_data(std::string(16 << 20, 'x'));
  for (int i = 0; i < 7; ++i) session->OnMessage(message);
  EXPECT_EQ(stream->closed, "");
  session->OnMessage(message);
  EXPECT_EQ(stream->closed, "WORKER_TOO_FAST");
  thread_.Settle();
}

}  // namespace
}  // namespace baton::controller
