// Records which jobs are being restored at this moment, in a file that outlives the process. If the
// process dies, the next one knows during whose restoration it died.
#ifndef BATON_CONTROLLER_RUNTIME_RESTORE_MARKS_H_
#define BATON_CONTROLLER_RUNTIME_RESTORE_MARKS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace baton::controller {

/// Thread-safe. A mark costs one small write without a sync. It survives the death of the process,
/// whatever the cause. A power cut may lose it; that is right, because a power cut is no fault of
/// the job.
class RestoreMarks {
 public:
  /// A job counts as being restored while its mark lives. Movable.
  class Mark {
   public:
    Mark() = default;
    Mark(RestoreMarks* marks, int slot) : marks_(marks), slot_(slot) {}
    Mark(Mark&& other) noexcept
        : marks_(std::exchange(other.marks_, nullptr)), slot_(other.slot_) {}
    Mark& operator=(Mark&&) = delete;
    ~Mark() {
      if (marks_ != nullptr) marks_->Clear(slot_);
    }

   private:
    RestoreMarks* marks_ = nullptr;
    int slot_ = 0;
  };

  /// Reads what the previous process left, then starts without marks. Errors name the path.
  static absl::StatusOr<std::unique_ptr<RestoreMarks>> Open(const std::string& path);
  ~RestoreMarks();
  RestoreMarks(const RestoreMarks&) = delete;
  RestoreMarks& operator=(const RestoreMarks&) = delete;

  /// The jobs that were marked when the previous process died; each once.
  const std::vector<std::string>& left() const { return left_; }
  /// Marks a job. Marks beyond the file's number of slots are not kept.
  Mark On(const std::string& job);

 private:
  RestoreMarks(int fd, std::vector<std::string> left) : fd_(fd), left_(std::move(left)) {}
  void Clear(int slot);

  const int fd_;
  const std::vector<std::string> left_;
  absl::Mutex mu_;
  std::vector<bool> taken_ ABSL_GUARDED_BY(mu_);
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_RESTORE_MARKS_H_
