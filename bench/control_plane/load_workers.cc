// All workers of the load: bare streams that beat, and those that play a job.
#include <csignal>
#include <cstdio>
#include <fstream>
#include <map>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "baton/v1/worker_service.grpc.pb.h"
#include "bench/control_plane/load.h"
#include "grpcpp/grpcpp.h"
#include "tests/fake_worker/fake_worker.h"

namespace baton::bench {
namespace {

constexpr absl::Duration kBeat = absl::Seconds(1);  // of each worker; Welcome asks for 2 s

// Counters that all workers add to. Thread-safe.
class WorkerTally {
 public:
  void Attached() {
    absl::MutexLock lock(&mu_);
    ++attached_;
  }
  void Acknowledged(absl::Time sent) {
    const absl::Time now = absl::Now();
    absl::MutexLock lock(&mu_);
    samples_.push_back({UnixSeconds(sent), absl::ToDoubleMilliseconds(now - sent)});
  }
  void Error(const std::string& what) {
    absl::MutexLock lock(&mu_);
    ++errors_[what];
  }
  bool WaitAttached(int count) {
    absl::MutexLock lock(&mu_);
    auto all = [this, count]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return attached_ >= count; };
    return mu_.AwaitWithTimeout(absl::Condition(&all), absl::Seconds(30));
  }
  void Write(const std::string& folder) {
    absl::MutexLock lock(&mu_);
    WriteSamples(absl::StrCat(folder, "/", kWorkersSamples), samples_);
    std::ofstream(absl::StrCat(folder, "/", kWorkersReport))
        << nlohmann::json{{"errors", errors_}, {"heartbeats", samples_.size()}};
  }

 private:
  absl::Mutex mu_;
  int attached_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<Sample> samples_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, int> errors_ ABSL_GUARDED_BY(mu_);
};

// A worker that offers nothing a job wants: its heartbeats are timed.
class BareWorker : public grpc::ClientBidiReactor<v1::WorkerMessage, v1::ControllerMessage> {
 public:
  BareWorker(const std::string& controller, int number, WorkerTally* tally)
      : tally_(tally), stub_(v1::WorkerService::NewStub(NewChannel(controller))) {
    v1::Hello* hello = out_.mutable_hello();
    hello->set_worker_id(absl::StrCat("bare-", number));
    hello->set_instance_id("1");
    hello->set_protocol_min(1);
    hello->set_protocol_max(1);
    writing_ = true;
    stub_->async()->Attach(&context_, this);
    AddHold();  // heartbeats are written from outside
    StartWrite(&out_);
    StartRead(&in_);
    StartCall();
  }

  // A heartbeat that must wait for an earlier write is late from now on.
  void Beat() {
    absl::MutexLock lock(&mu_);
    if (ended_ || stopping_ || !welcome_) return;
    sent_[++sequence_] = absl::Now();
    if (!writing_) WriteNext();
  }

  void Stop() {
    {
      absl::MutexLock lock(&mu_);
      stopping_ = true;
      for (const auto& [sequence, sent] : sent_) {
        if (absl::Now() - sent > absl::Seconds(2)) tally_->Error("heartbeat without an answer");
      }
    }
    context_.TryCancel();
    RemoveHold();
    done_.WaitForNotification();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (in_.has_welcome()) {
      {
        absl::MutexLock lock(&mu_);
        welcome_ = true;
      }
      tally_->Attached();
    } else if (in_.has_heartbeat_ack()) {
      Acknowledge(in_.heartbeat_ack().sequence());
    }
    StartRead(&in_);
  }
  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mu_);
    writing_ = false;
    if (ok && written_ < sequence_ && !stopping_) WriteNext();
  }
  void OnDone(const grpc::Status& status) override {
    {
      absl::MutexLock lock(&mu_);
      ended_ = true;
      if (!stopping_) {
        tally_->Error(absl::StrCat("attach: ", status.error_code(), " ", status.error_message()));
      }
    }
    done_.Notify();
  }

 private:
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    writing_ = true;
    out_.mutable_heartbeat()->set_sequence(++written_);
    StartWrite(&out_);
  }
  void Acknowledge(uint64_t sequence) {
    absl::MutexLock lock(&mu_);
    auto it = sent_.find(sequence);
    if (it == sent_.end()) return tally_->Error("heartbeat answered twice");
    tally_->Acknowledged(it->second);
    sent_.erase(it);
  }

  WorkerTally* const tally_;
  const std::unique_ptr<v1::WorkerService::Stub> stub_;
  grpc::ClientContext context_;
  v1::WorkerMessage out_;
  v1::ControllerMessage in_;
  absl::Notification done_;
  absl::Mutex mu_;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool welcome_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t sequence_ ABSL_GUARDED_BY(mu_) = 0;  // of the newest heartbeat
  uint64_t written_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<uint64_t, absl::Time> sent_ ABSL_GUARDED_BY(mu_);
};

using BareWorkers = std::vector<std::unique_ptr<BareWorker>>;

// One heartbeat after the other, evenly over the interval, until `stop`.
void BeatUntil(const absl::Notification& stop, const BareWorkers& workers) {
  const absl::Duration gap = kBeat / static_cast<int64_t>(workers.size());
  absl::Time next = absl::Now();
  for (size_t i = 0; !stop.HasBeenNotified(); i = (i + 1) % workers.size()) {
    workers[i]->Beat();
    next += gap;
    stop.WaitForNotificationWithTimeout(next - absl::Now());
  }
}

std::unique_ptr<fake::FakeWorker> StartFake(const std::string& controller,
                                            const std::string& folder, const std::string& role,
                                            int number, WorkerTally& tally) {
  fake::FakeWorkerOptions options;
  options.worker.controller = controller;
  options.worker.worker_id = absl::StrCat(role, "-", number);
  options.roles = {role};
  options.weights_place = absl::StrCat(folder, "/weights");
  options.token_delay = absl::Milliseconds(2);
  options.task_delay = absl::Milliseconds(2);
  auto worker = fake::FakeWorker::Create(std::move(options));
  if (!worker.ok()) {
    tally.Error(worker.status().ToString());
    return nullptr;
  }
  (*worker)->Start();
  return *std::move(worker);
}

}  // namespace

int RunLoadWorkers(const std::string& controller, const std::string& folder, int count,
                   int rollouts) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  WorkerTally tally;
  BareWorkers workers;
  for (int i = 0; i < count; ++i) {
    workers.push_back(std::make_unique<BareWorker>(controller, i, &tally));
  }
  std::vector<std::unique_ptr<fake::FakeWorker>> fakes;
  for (const char* role : {"actor", "reward"}) {
    fakes.push_back(StartFake(controller, folder, role, 0, tally));
  }
  for (int i = 0; i < rollouts; ++i) {
    fakes.push_back(StartFake(controller, folder, "rollout", i, tally));
  }
  if (!tally.WaitAttached(count)) tally.Error("not every worker was welcome");
  std::printf("ready=1\n");
  std::fflush(stdout);
  absl::Notification stop;
  std::thread beat([&] { BeatUntil(stop, workers); });
  int signal = 0;
  sigwait(&signals, &signal);
  stop.Notify();
  beat.join();
  for (const auto& worker : workers) worker->Stop();
  tally.Write(folder);
  return 0;
}

}  // namespace baton::bench
