// Marks of the jobs that the process works for at this moment, in a file that outlives it. If the
// process dies, the next one knows for which jobs it was working: a restoration, a turn, the
// construction of a batch.
#ifndef BATON_CONTROLLER_RUNTIME_ROWS_RESTORE_MARKS_H_
#define BATON_CONTROLLER_RUNTIME_ROWS_RESTORE_MARKS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace baton::controller {

/// Thread-safe. A mark costs a copy of the job's name into mapped memory of the file; every turn of
/// every job has one. It survives the death of the process, whatever the cause. A power cut may
/// lose it; that is right, because a power cut is no fault of the job.
class RestoreMarks {
 public:
  /// The process works for a job while its mark lives. Movable.
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
  RestoreMarks(char* slots, std::vector<std::string> left)
      : slots_(slots), left_(std::move(left)) {}
  void Clear(int slot);

  char* const slots_;  // of the file, mapped into memory
  const std::vector<std::string> left_;
  absl::Mutex mu_;
  std::vector<bool> taken_ ABSL_GUARDED_BY(mu_);
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_ROWS_RESTORE_MARKS_H_
