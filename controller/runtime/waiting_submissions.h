// Limits how many submissions of a project wait, and how many hold copies of checkpoints.
#ifndef BATON_CONTROLLER_RUNTIME_WAITING_SUBMISSIONS_H_
#define BATON_CONTROLLER_RUNTIME_WAITING_SUBMISSIONS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "sdk/rpc/error.h"

namespace baton::controller {

/// Limits two things per project: the memory of specs that wait for a thread to read their files,
/// and the disk space of their copies of checkpoints until the submissions are answered. A project
/// above a limit gets no place; other projects are not affected. Thread-safe.
class WaitingSubmissions {
 public:
  /// So many submissions of one project may hold copies at once.
  static constexpr int kMaxWithCopies = 8;

  explicit WaitingSubmissions(uint64_t max_bytes) : limit_(max_bytes) {}

  /// A place for a spec of so many bytes, held until the returned object is destroyed. That object
  /// may outlive this. RESOURCE_EXHAUSTED (SUBMISSIONS_WAITING).
  absl::StatusOr<std::shared_ptr<void>> Enter(const std::string& project, uint64_t spec_bytes) {
    const uint64_t bytes = spec_bytes + kCallBytes;
    absl::MutexLock lock(&state_->mu);
    uint64_t& waiting = state_->bytes[project];
    // The first submission always gets a place.
    if (waiting > 0 && waiting + bytes > limit_) {
      return MakeError(absl::StatusCode::kResourceExhausted, "SUBMISSIONS_WAITING",
                       absl::StrCat("project ", project, " has submissions of ", waiting,
                                    " bytes whose files are being read, and may have ", limit_,
                                    "; wait for their answers, then submit again"));
    }
    waiting += bytes;
    return std::shared_ptr<void>(new Place{state_, project, bytes},
                                 [](Place* place) { Leave(place); });
  }

  /// A place for a submission that copies checkpoints, held like that of Enter. RESOURCE_EXHAUSTED
  /// (SUBMISSIONS_WAITING).
  absl::StatusOr<std::shared_ptr<void>> EnterCopies(const std::string& project) {
    absl::MutexLock lock(&state_->mu);
    int& copies = state_->copies[project];
    if (copies >= kMaxWithCopies) {
      return MakeError(absl::StatusCode::kResourceExhausted, "SUBMISSIONS_WAITING",
                       absl::StrCat("project ", project, " has ", copies,
                                    " submissions with copies of checkpoints that wait for their "
                                    "checks, and may have no more; wait for their answers, then "
                                    "submit again"));
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

  struct State {
    absl::Mutex mu;
    std::map<std::string, uint64_t> bytes ABSL_GUARDED_BY(mu);  // by project
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
    if (it->second == 0) owned->state->bytes.erase(it);
  }

  const uint64_t limit_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_WAITING_SUBMISSIONS_H_
