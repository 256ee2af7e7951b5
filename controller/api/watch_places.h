// Limits on the number of streams that a project keeps open.
#ifndef BATON_CONTROLLER_API_WATCH_PLACES_H_
#define BATON_CONTROLLER_API_WATCH_PLACES_H_

#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "sdk/common/rpc/error.h"

namespace baton::api {

/// Thread-safe. A place may outlive this.
class WatchPlaces {
 public:
  /// The place is released when its last copy is destroyed.
  using Place = std::shared_ptr<const void>;

  /// RESOURCE_EXHAUSTED (QUOTA_WATCHES) when `limit` of `project` are taken; 0: no limit.
  absl::StatusOr<Place> Take(const std::string& project, int limit) {
    absl::MutexLock lock(&state_->mu);
    int& taken = state_->taken[project];
    if (limit > 0 && taken >= limit) {
      return MakeError(absl::StatusCode::kResourceExhausted, "QUOTA_WATCHES",
                       absl::StrCat("project ", project, " has ", taken,
                                    " watches and log "
                                    "readers open, of at most ",
                                    limit, "; close some"));
    }
    ++taken;
    return Place(state_.get(), [state = state_, project](const void*) {
      absl::MutexLock lock(&state->mu);
      if (--state->taken[project] == 0) state->taken.erase(project);
    });
  }

 private:
  struct State {
    absl::Mutex mu;
    std::map<std::string, int> taken ABSL_GUARDED_BY(mu);
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace baton::api

#endif  // BATON_CONTROLLER_API_WATCH_PLACES_H_
