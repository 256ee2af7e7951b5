#include "controller/status/event_collector.h"

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace baton::status {
namespace {

// Keeps the subscription until the events are delivered.
struct Holder {
  absl::Mutex mu;
  std::unique_ptr<controller::Subscription> subscription ABSL_GUARDED_BY(mu);
};

class Collector : public controller::EventSink {
 public:
  Collector(int64_t last_revision, size_t limit, EventsDone done)
      : last_revision_(last_revision), limit_(limit), done_(std::move(done)) {}

  bool OnEvent(const v1::JobEvent& event) override {
    if (event.revision() == 0) return true;  // progress events are not stored
    {
      absl::MutexLock lock(&mu_);
      if (!done_) return false;
      events_.push_back(event);
      if (event.revision() < last_revision_ && events_.size() < limit_) return true;
    }
    OnEnd(absl::OkStatus());
    return false;
  }

  void OnEnd(absl::Status status) override {
    EventsDone done;
    std::vector<v1::JobEvent> events;
    {
      absl::MutexLock lock(&mu_);
      done = std::exchange(done_, nullptr);
      events.swap(events_);
    }
    if (!done) return;
    if (!status.ok()) return done(status);
    done(std::move(events));
  }

 private:
  const int64_t last_revision_;
  const size_t limit_;
  absl::Mutex mu_;
  EventsDone done_ ABSL_GUARDED_BY(mu_);
  std::vector<v1::JobEvent> events_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

void CollectEvents(controller::ControllerInterface* controller, const std::string& job,
                   int64_t after_revision, size_t limit, EventsDone done) {
  v1::GetJobRequest get;
  get.set_name(job);
  controller->GetJob(get, [=](absl::StatusOr<v1::Job> found) {
    if (!found.ok()) return done(found.status());
    if (found->revision() <= after_revision) return done(std::vector<v1::JobEvent>());
    auto holder = std::make_shared<Holder>();
    auto sink = std::make_shared<Collector>(
        found->revision(), limit, [done, holder](absl::StatusOr<std::vector<v1::JobEvent>> events) {
          done(std::move(events));
        });
    v1::WatchJobRequest watch;
    watch.set_name(job);
    watch.set_after_revision(after_revision);
    auto subscription = controller->WatchJob(watch, sink);
    absl::MutexLock lock(&holder->mu);
    holder->subscription = std::move(subscription);
  });
}

}  // namespace baton::status
