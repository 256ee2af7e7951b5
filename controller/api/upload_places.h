// Limits on the number of uploads that are open at once.
#ifndef BATON_CONTROLLER_API_UPLOAD_PLACES_H_
#define BATON_CONTROLLER_API_UPLOAD_PLACES_H_

#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "sdk/common/rpc/error.h"
#include "sdk/common/rpc/retry.h"

namespace baton::api {

struct UploadLimits {
  int open = 1024;                          ///< At once; each has a file open.
  int open_of_project = 256;                ///< At once, for one project.
  absl::Duration idle = absl::Minutes(1);   ///< For the next piece; then the upload ends.
  absl::Duration longest = absl::Hours(2);  ///< For a whole file, however its pieces come.
};

/// Thread-safe. A place may outlive this.
class UploadPlaces {
 public:
  /// The place is released when its last copy is destroyed.
  using Place = std::shared_ptr<const void>;

  explicit UploadPlaces(const UploadLimits& limits) : limits_(limits) {}

  const UploadLimits& limits() const { return limits_; }

  /// RESOURCE_EXHAUSTED (UPLOADS_OPEN).
  absl::StatusOr<Place> Take(const std::string& project) {
    absl::MutexLock lock(&state_->mu);
    const auto it = state_->open.find(project);
    const int of_project = it == state_->open.end() ? 0 : it->second;
    if (of_project >= limits_.open_of_project || state_->all >= limits_.open) {
      return WithRetry(
          MakeError(
              absl::StatusCode::kResourceExhausted, "UPLOADS_OPEN",
              absl::StrCat("project ", project, " has ", of_project, " uploads open, of at most ",
                           limits_.open_of_project, ", and all projects have ", state_->all,
                           ", of at most ", limits_.open, "; upload again when some have ended")),
          absl::Seconds(1));
    }
    ++state_->open[project];
    ++state_->all;
    return Place(state_.get(), [state = state_, project](const void*) {
      absl::MutexLock lock(&state->mu);
      --state->all;
      if (--state->open[project] == 0) state->open.erase(project);
    });
  }

 private:
  struct State {
    absl::Mutex mu;
    std::map<std::string, int> open ABSL_GUARDED_BY(mu);  // by project
    int all ABSL_GUARDED_BY(mu) = 0;
  };
  const UploadLimits limits_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace baton::api

#endif  // BATON_CONTROLLER_API_UPLOAD_PLACES_H_
