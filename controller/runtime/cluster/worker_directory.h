// The streams of attached workers, and what the workers offer, by the workers' names
// (controller/cluster/cluster_workers.h). Thread-safe.
#ifndef BATON_CONTROLLER_RUNTIME_CLUSTER_WORKER_DIRECTORY_H_
#define BATON_CONTROLLER_RUNTIME_CLUSTER_WORKER_DIRECTORY_H_

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "controller/ports/worker_outbox.h"
#include "controller/runtime/calls/calls.h"
#include "controller/spec/dataflow/role_needs.h"

namespace baton::controller {

class WorkerDirectory : public WorkerOutbox {
 public:
  /// Replaces the worker's stream, and returns the previous one, or null.
  std::shared_ptr<WorkerStream> Set(const std::string& worker,
                                    std::shared_ptr<WorkerStream> stream) {
    absl::MutexLock lock(&mu_);
    return std::exchange(streams_[worker], std::move(stream));
  }

  /// Does nothing if `stream` is not the worker's current stream.
  void Remove(const std::string& worker, const WorkerStream* stream) {
    absl::MutexLock lock(&mu_);
    auto it = streams_.find(worker);
    if (it != streams_.end() && it->second.get() == stream) streams_.erase(it);
  }

  void Send(const std::string& worker, v1::ControllerMessage message) override {
    std::shared_ptr<WorkerStream> stream;
    {
      absl::MutexLock lock(&mu_);
      auto it = streams_.find(worker);
      if (it == streams_.end()) return;
      stream = it->second;
    }
    stream->Send(std::move(message));
  }

  /// A worker attached. Its offer is kept when it leaves, because it may come back. `project`: the
  /// only project whose jobs it may get; "*": all.
  void Introduce(const std::string& worker, const v1::Hello& hello, const std::string& project) {
    absl::MutexLock lock(&mu_);
    ForgetSomeAway();
    Introduced& known = introduced_[worker];
    known.project = project;
    known.offer.Clear();
    *known.offer.mutable_methods() = hello.methods();
    *known.offer.mutable_features() = hello.features();
    known.offer.set_group_store(hello.group_store());
  }
  bool HasFeature(const std::string& worker, const std::string& feature) const override {
    absl::MutexLock lock(&mu_);
    const auto known = introduced_.find(worker);
    if (known == introduced_.end()) return false;
    const auto& features = known->second.offer.features();
    return std::count(features.begin(), features.end(), feature) > 0;
  }

  /// The combined offer of the workers of a role that have attached since this controller started
  /// and may work for the project.
  struct RoleSupport {
    bool known = false;             ///< At least one such worker has attached.
    std::set<std::string> methods;  ///< Methods of any of them, without those that every role has.
    /// What the closest worker lacks.
    MissingSupport missing;
  };
  RoleSupport SupportOf(const std::string& role, const RoleNeed& need,
                        const std::string& project) const {
    absl::MutexLock lock(&mu_);
    RoleSupport out;
    for (const auto& [worker, known] : introduced_) {
      if (known.project != "*" && known.project != project) continue;
      if (!PlaysRole(known.offer, role)) continue;
      const MissingSupport missing = MissingFrom(known.offer, role, need);
      const bool first = !std::exchange(out.known, true);
      // A worker that serves the methods and lacks a feature is closer than one that lacks a
      // method.
      const bool closer = missing.none() || (missing.method.empty() && !out.missing.method.empty());
      if (first || (closer && !out.missing.none())) out.missing = missing;
      for (const v1::MethodCredits& method : known.offer.methods()) {
        if (method.role() != role || method.method() == "assign_role") continue;
        if (method.method() != "release_role") out.methods.insert(method.method());
      }
    }
    return out;
  }

  std::string GroupStoreOf(const std::string& worker) const override {
    absl::MutexLock lock(&mu_);
    const auto known = introduced_.find(worker);
    return known == introduced_.end() ? "" : known->second.offer.group_store();
  }

  /// Removes and returns all streams.
  std::map<std::string, std::shared_ptr<WorkerStream>> TakeAll() {
    absl::MutexLock lock(&mu_);
    return std::exchange(streams_, {});
  }

 private:
  struct Introduced {
    v1::Hello offer;  // methods, features and group_store
    std::string project;
  };
  // The number of absent workers that are remembered; it is bounded because a token can attach
  // under any number of ids.
  static constexpr size_t kMostAway = 1000;

  void ForgetSomeAway() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    for (auto it = introduced_.begin();
         it != introduced_.end() && introduced_.size() > streams_.size() + kMostAway;) {
      it = streams_.count(it->first) > 0 ? std::next(it) : introduced_.erase(it);
    }
  }

  mutable absl::Mutex mu_;
  std::map<std::string, Introduced> introduced_ ABSL_GUARDED_BY(mu_);  // by worker
  std::map<std::string, std::shared_ptr<WorkerStream>> streams_ ABSL_GUARDED_BY(mu_);
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CLUSTER_WORKER_DIRECTORY_H_
