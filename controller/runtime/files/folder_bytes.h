// Disk space of the folders of jobs, by project.
//
// A thread of its own looks at folders: at all of them once, and later at those that changed
// (Touch). So no call waits for a walk through a folder, and a number is some seconds old. A file
// with several names counts under each name with an equal share of its size, so that it counts once
// in all; holes do not count.
#ifndef BATON_CONTROLLER_RUNTIME_FILES_FOLDER_BYTES_H_
#define BATON_CONTROLLER_RUNTIME_FILES_FOLDER_BYTES_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace baton::controller {

/// Thread-safe. No method blocks but Settle and the destructor.
class FolderBytes {
 public:
  /// `jobs`: the folder with PROJECT/JOB.
  explicit FolderBytes(std::filesystem::path jobs);
  /// Ends the thread, which stops within the folder that it looks at.
  ~FolderBytes();
  FolderBytes(const FolderBytes&) = delete;
  FolderBytes& operator=(const FolderBytes&) = delete;

  /// The first call: looks at all folders.
  void Start();
  /// The folder of this job (its full name) was made, changed or deleted: it is measured soon, and
  /// until then counts at least `at_least` bytes.
  void Touch(const std::string& job, int64_t at_least = 0);

  /// Bytes of all jobs of a project, with those held for it.
  int64_t OfProject(const std::string& project) const;
  int64_t OfJob(const std::string& job) const;
  /// Projects with a folder of a job.
  std::set<std::string> Projects() const;
  /// Holds bytes of a project that are about to be written, until the result is destroyed; it may
  /// outlive this. RESOURCE_EXHAUSTED (QUOTA_JOB_BYTES): the project has, with them, more than
  /// `limit`; 0: no limit.
  absl::StatusOr<std::shared_ptr<void>> Hold(const std::string& project, int64_t bytes,
                                             int64_t limit);
  /// Waits until everything is counted that was touched before. For tests.
  void Settle();

 private:
  struct State {
    absl::Mutex mu;
    std::map<std::string, std::map<std::string, int64_t>> bytes ABSL_GUARDED_BY(mu);  // by project
    std::map<std::string, int64_t> held ABSL_GUARDED_BY(mu);                          // by project
    std::set<std::string> changed ABSL_GUARDED_BY(mu);  // "PROJECT/JOB", to look at
    bool all ABSL_GUARDED_BY(mu) = false;               // every folder is to be looked at
    bool looking ABSL_GUARDED_BY(mu) = false;
    bool stopping ABSL_GUARDED_BY(mu) = false;
  };
  static int64_t Sum(const State& state, const std::string& project)
      ABSL_SHARED_LOCKS_REQUIRED(state.mu);
  void Work();
  void List();
  /// Negative: the controller stops.
  int64_t Count(const std::filesystem::path& folder) const;

  const std::filesystem::path jobs_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
  std::thread thread_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_FILES_FOLDER_BYTES_H_
