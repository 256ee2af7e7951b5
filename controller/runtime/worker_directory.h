// Where the streams of attached workers are. Thread-safe.
#ifndef BATON_CONTROLLER_RUNTIME_WORKER_DIRECTORY_H_
#define BATON_CONTROLLER_RUNTIME_WORKER_DIRECTORY_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "controller/runtime/controller_interface.h"

namespace baton::controller {

class WorkerDirectory {
 public:
  /// Returns the stream that was there before, or null.
  std::shared_ptr<WorkerStream> Set(const std::string& worker,
                                    std::shared_ptr<WorkerStream> stream) {
    absl::MutexLock lock(&mu_);
    return std::exchange(streams_[worker], std::move(stream));
  }

  /// Only if `stream` is still the worker's stream.
  void Remove(const std::string& worker, const WorkerStream* stream) {
    absl::MutexLock lock(&mu_);
    auto it = streams_.find(worker);
    if (it != streams_.end() && it->second.get() == stream) streams_.erase(it);
  }

  /// Drops the message when the worker is not attached: when it comes back it tells what it
  /// runs, and what it lacks is sent again.
  void Send(const std::string& worker, v1::ControllerMessage message) {
    std::shared_ptr<WorkerStream> stream;
    {
      absl::MutexLock lock(&mu_);
      auto it = streams_.find(worker);
      if (it == streams_.end()) return;
      stream = it->second;
    }
    stream->Send(std::move(message));
  }

  /// A worker that attached serves these, and as far as anybody knows always will.
  void Introduce(const v1::Hello& hello) {
    absl::MutexLock lock(&mu_);
    for (const v1::MethodCredits& method : hello.methods()) {
      methods_.emplace(method.role(), method.method());
    }
    stores_[hello.worker_id()] = hello.group_store();
    features_[hello.worker_id()] = {hello.features().begin(), hello.features().end()};
  }
  /// The worker promised it when it attached last (Hello.features).
  bool Promises(const std::string& worker, const std::string& feature) const {
    absl::MutexLock lock(&mu_);
    const auto promised = features_.find(worker);
    return promised != features_.end() && promised->second.count(feature) > 0;
  }
  /// True when some worker has registered it since this controller started.
  bool Serves(const std::string& role, const std::string& method) const {
    absl::MutexLock lock(&mu_);
    return methods_.count({role, method}) > 0;
  }

  /// Where ranks meet when this worker is their first; "": it never said.
  std::string GroupStoreOf(const std::string& worker) const {
    absl::MutexLock lock(&mu_);
    const auto store = stores_.find(worker);
    return store == stores_.end() ? "" : store->second;
  }

  /// Takes all streams out.
  std::map<std::string, std::shared_ptr<WorkerStream>> TakeAll() {
    absl::MutexLock lock(&mu_);
    return std::exchange(streams_, {});
  }

 private:
  mutable absl::Mutex mu_;
  std::set<std::pair<std::string, std::string>> methods_ ABSL_GUARDED_BY(mu_);  // role, method
  std::map<std::string, std::string> stores_ ABSL_GUARDED_BY(mu_);              // by worker
  std::map<std::string, std::set<std::string>> features_ ABSL_GUARDED_BY(mu_);  // by worker
  std::map<std::string, std::shared_ptr<WorkerStream>> streams_ ABSL_GUARDED_BY(mu_);
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_WORKER_DIRECTORY_H_
