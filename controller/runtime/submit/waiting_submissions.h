// Limits on a project's waiting submissions, and on those that hold copies of checkpoints.
#ifndef BATON_CONTROLLER_RUNTIME_SUBMIT_WAITING_SUBMISSIONS_H_
#define BATON_CONTROLLER_RUNTIME_SUBMIT_WAITING_SUBMISSIONS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "sdk/common/rpc/error.h"
#include "sdk/common/rpc/retry.h"

namespace baton::controller {

/// Limits the memory of specs that wait for a thread to read their files, of a project and of all
/// projects, and how many submissions of a project hold copies of checkpoints until they are
/// answered. Within the limits a submission waits for its turn (FairThreads); beyond them it is
/// refused, and told when to try again. A project at its limit does not affect the others.
/// Thread-safe.
class WaitingSubmissions {
 public:
  /// The most submissions of one project that may hold copies at once.
  static constexpr int kMaxWithCopies = 8;

  explicit WaitingSubmissions(uint64_t max_of_project, uint64_t max_of_all = uint64_t{256} << 20)
      : max_of_project_(max_of_project), max_of_all_(max_of_all) {}

  /// A place for a spec of this many bytes, held until the returned object is destroyed. That
  /// object may outlive this. RESOURCE_EXHAUSTED (SUBMISSIONS_WAITING), with RetryInfo.
  absl::StatusOr<std::shared_ptr<void>> Enter(const std::string& project, uint64_t spec_bytes) {
    const uint64_t bytes = spec_bytes + kCallBytes;
    absl::MutexLock lock(&state_->mu);
    const auto it = state_->bytes.find(project);
    const uint64_t waiting = it == state_->bytes.end() ? 0 : it->second;
    // The first submission of a project gets a place even if the others have taken all, but only
    // within a quarter more, because callers without a project of their own can make up project
    // names.
    const bool first = waiting == 0;
    const uint64_t bound = first ? max_of_all_ + max_of_all_ / 4 : max_of_all_;
    const bool room = state_->all == 0 || state_->all + bytes <= bound;
    if ((!first && waiting + bytes > max_of_project_) || !room) {
      return WithRetry(MakeError(absl::StatusCode::kResourceExhausted, "SUBMISSIONS_WAITING",
                                 absl::StrCat("submissions of ", waiting,
                                              " bytes wait for their turn in project ", project,
                                              ", of at most ", max_of_project_, ", and of ",
                                              state_->all, " bytes in all projects, of at most ",
                                              max_of_all_, "; submit again in a moment")),
                       kComeAgain);
    }
    state_->bytes[project] += bytes;
    state_->all += bytes;
    return std::shared_ptr<void>(new Place{state_, project, bytes},
                                 [](Place* place) { Leave(place); });
  }

  /// A place for a submission that copies checkpoints, held like that of Enter. RESOURCE_EXHAUSTED
  /// (SUBMISSIONS_WAITING), with RetryInfo.
  absl::StatusOr<std::shared_ptr<void>> EnterCopies(const std::string& project) {
    absl::MutexLock lock(&state_->mu);
    int& copies = state_->copies[project];
    if (copies >= kMaxWithCopies) {
      return WithRetry(
          MakeError(absl::StatusCode::kResourceExhausted, "SUBMISSIONS_WAITING",
                    absl::StrCat("project ", project, " has ", copies,
                                 " submissions with copies of checkpoints that wait for their "
                                 "checks, and may have no more; wait for their answers, then "
                                 "submit again")),
          kComeAgain);
    }
    ++copies;
    return std::shared_ptr<void>(state_.get(), [state = state_, project](void*) {
      absl::MutexLock lock(&state->mu);
      const auto it = state->copies.find(project);
      if (--it->second == 0) state->copies.erase(it);
    });
  }

 private:
  static constexpr uint64_t kCallBytes = 4096;  // memory of a call without its spec
  static constexpr absl::Duration kComeAgain = absl::Seconds(1);

  struct State {
    absl::Mutex mu;
    std::map<std::string, uint64_t> bytes ABSL_GUARDED_BY(mu);  // by project
    uint64_t all ABSL_GUARDED_BY(mu) = 0;                       // their sum
    std::map<std::string, int> copies ABSL_GUARDED_BY(mu);      // by project
  };
  struct Place {
    std::shared_ptr<State> state;
    std::string project;
    uint64_t bytes;
  };
  static void Leave(Place* place) {
    const std::unique_ptr<Place> owned(place);
    absl::MutexLock lock(&owned->state->mu);
    auto it = owned->state->bytes.find(owned->project);
    it->second -= owned->bytes;
    owned->state->all -= owned->bytes;
    if (it->second == 0) owned->state->bytes.erase(it);
  }

  const uint64_t max_of_project_, max_of_all_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_SUBMIT_WAITING_SUBMISSIONS_H_
