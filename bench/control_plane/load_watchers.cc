// All watchers of the load.
#include <csignal>
#include <cstdio>
#include <fstream>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "baton/v1/job_service.grpc.pb.h"
#include "bench/control_plane/load.h"
#include "grpcpp/grpcpp.h"
#include "sdk/common/messages/times.h"

namespace baton::bench {
namespace {

constexpr int kChannels = 8;
constexpr int kSlowChannels = 2;

absl::Time TimeOf(const v1::JobEvent& event) { return FromProto(event.time()); }

// Counters that all watchers add to. Thread-safe.
struct Tally {
  absl::Mutex mu;
  int begun ABSL_GUARDED_BY(mu) = 0;
  int ended ABSL_GUARDED_BY(mu) = 0;
  int cut_off ABSL_GUARDED_BY(mu) = 0;
  int left ABSL_GUARDED_BY(mu) = 0;       // streams given up and taken again
  int caught_up ABSL_GUARDED_BY(mu) = 0;  // slow ones that were woken
  int64_t events ABSL_GUARDED_BY(mu) = 0;
  int64_t bytes ABSL_GUARDED_BY(mu) = 0;
  int64_t newest ABSL_GUARDED_BY(mu) = 0;  // revision that any watcher has seen
  std::vector<Sample> lags ABSL_GUARDED_BY(mu);
  std::map<std::string, int> errors ABSL_GUARDED_BY(mu);

  bool Wait(int Tally::*count, int value, absl::Duration limit) {
    absl::MutexLock lock(&mu);
    auto reached = [this, count, value] { return this->*count >= value; };
    return mu.AwaitWithTimeout(absl::Condition(&reached), limit);
  }
  void Error(const std::string& what) {
    absl::MutexLock lock(&mu);
    ++errors[what];
  }
};

// Resumes after a cut-off; checks that no kept event is missing or comes twice.
class Watcher : public grpc::ClientReadReactor<v1::JobEvent> {
 public:
  Watcher(const std::shared_ptr<grpc::Channel>& channel, const std::string& job, bool slow,
          Tally* tally)
      : slow_(slow), tally_(tally), stub_(v1::JobService::NewStub(channel)), asleep_(slow) {
    request_.set_name(job);
    Begin();
  }

  /// `leave`: it gives the stream up and takes another after the last event that it got.
  void Wake(bool leave) {
    absl::MutexLock lock(&mu_);
    asleep_ = false;
    {
      absl::MutexLock tally(&tally_->mu);
      target_ = tally_->newest;
    }
    if (leave) {
      leaving_ = true;
      context_->TryCancel();
    } else if (parked_) {
      StartRead(&event_);
    }
    RemoveHold();
  }

  int64_t last() const { return request_.after_revision(); }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    Take();
    absl::MutexLock lock(&mu_);
    if (target_ > 0 && last() >= target_) {
      target_ = 0;
      absl::MutexLock tally(&tally_->mu);
      ++tally_->caught_up;
    }
    parked_ = asleep_;
    if (!parked_) StartRead(&event_);
  }

  void OnDone(const grpc::Status& status) override {
    const bool cut_off = status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
    if (cut_off &&
        status.error_message().find(absl::StrCat("after ", last(), ",")) == std::string::npos) {
      tally_->Error("a cut-off does not name the revision to resume after");
    }
    bool left = false;
    {
      absl::MutexLock lock(&mu_);
      left = std::exchange(leaving_, false) && status.error_code() == grpc::StatusCode::CANCELLED;
    }
    {
      absl::MutexLock lock(&tally_->mu);
      if (cut_off) ++tally_->cut_off;
      if (left) ++tally_->left;
      if (!cut_off && !left) ++tally_->ended;
    }
    if (cut_off || left) return Begin();
    if (!status.ok()) {
      tally_->Error(absl::StrCat("watch: ", status.error_code(), " ", status.error_message()));
    }
  }

 private:
  void Begin() {
    began_ = absl::Now();
    context_ = std::make_unique<grpc::ClientContext>();
    stub_->async()->WatchJob(context_.get(), &request_, this);
    {
      absl::MutexLock lock(&mu_);
      parked_ = false;
      if (asleep_) AddHold();
    }
    StartRead(&event_);
    StartCall();
  }

  void Take() {
    const absl::Time now = absl::Now();
    const int64_t revision = event_.revision();
    const absl::Time happened = TimeOf(event_);
    absl::MutexLock lock(&tally_->mu);
    if (++taken_ == 1) ++tally_->begun;
    ++tally_->events;
    tally_->bytes += static_cast<int64_t>(event_.ByteSizeLong());
    if (!slow_ && happened > began_) {
      tally_->lags.push_back({UnixSeconds(now), absl::ToDoubleMilliseconds(now - happened)});
    }
    if (revision == 0) return;  // not kept
    if (revision <= last()) ++tally_->errors["an event came twice"];
    if (revision > last() + 1) ++tally_->errors["an event is missing"];
    request_.set_after_revision(revision);
    tally_->newest = std::max(tally_->newest, revision);
  }

  const bool slow_;
  Tally* const tally_;
  const std::unique_ptr<v1::JobService::Stub> stub_;
  std::unique_ptr<grpc::ClientContext> context_;
  v1::WatchJobRequest request_;  // its revision is the last that came
  v1::JobEvent event_;
  absl::Time began_;
  int64_t taken_ = 0;
  absl::Mutex mu_;
  bool asleep_ ABSL_GUARDED_BY(mu_);
  bool leaving_ ABSL_GUARDED_BY(mu_) = false;
  bool parked_ ABSL_GUARDED_BY(mu_) = false;  // nothing is being read
  int64_t target_ ABSL_GUARDED_BY(mu_) = 0;
};

using Watchers = std::vector<std::unique_ptr<Watcher>>;

void Write(const std::string& folder, const Watchers& watchers, Tally& tally) {
  absl::MutexLock lock(&tally.mu);
  for (const auto& watcher : watchers) {
    if (watcher->last() != tally.newest) ++tally.errors["a watcher ended before the last event"];
  }
  WriteSamples(absl::StrCat(folder, "/", kWatchersSamples), tally.lags);
  std::ofstream(absl::StrCat(folder, "/", kWatchersReport)) << nlohmann::json{
      {"errors", tally.errors},       {"cut_off", tally.cut_off}, {"left", tally.left},
      {"caught_up", tally.caught_up}, {"events", tally.events},   {"bytes", tally.bytes},
      {"revisions", tally.newest}};
}

}  // namespace

int RunLoadWatchers(const std::string& controller, const std::string& folder,
                    const std::string& job, int count, int slow) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::vector<std::shared_ptr<grpc::Channel>> channels, slow_channels;
  for (int i = 0; i < kChannels; ++i) channels.push_back(NewChannel(controller));
  for (int i = 0; i < kSlowChannels; ++i) slow_channels.push_back(NewChannel(controller, true));
  Tally tally;
  Watchers watchers;
  for (int i = 0; i < count; ++i) {
    const auto& channel = i < slow ? slow_channels[static_cast<size_t>(i % kSlowChannels)]
                                   : channels[static_cast<size_t>(i % kChannels)];
    watchers.push_back(std::make_unique<Watcher>(channel, job, i < slow, &tally));
  }
  if (!tally.Wait(&Tally::begun, count, absl::Seconds(30))) {
    tally.Error("not every watcher saw an event");
  }
  std::printf("ready=1\n");
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  for (int i = 0; i < slow; ++i) watchers[static_cast<size_t>(i)]->Wake(i % 2 == 0);
  if (!tally.Wait(&Tally::caught_up, slow, absl::Seconds(20))) {
    tally.Error("a slow watcher did not catch up");
  }
  {
    absl::MutexLock lock(&tally.mu);
    std::printf("resumed=%d\n", tally.cut_off);
    std::fflush(stdout);
  }
  if (!tally.Wait(&Tally::ended, count, absl::Seconds(30))) {
    tally.Error("a watcher did not end with its job");
    Write(folder, watchers, tally);
    std::_Exit(1);  // their calls are still under way
  }
  Write(folder, watchers, tally);
  return 0;
}

}  // namespace baton::bench
