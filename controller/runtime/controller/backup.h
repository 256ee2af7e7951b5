// A consistent copy of everything that the controller keeps, taken while it runs.
//
// The files that rows name are first linked under a separate folder, where no job deletes them.
// Then the database is copied. Then files that were written meanwhile are linked too. If a
// checkpoint that the copied rows name is gone by then, the backup starts again.
//
// A damaged checkpoint must be noticed when the backup is made, not when it is needed. So each
// checkpoint that rows name is compared with its files.json: names and sizes here, checksums by the
// reader of the files.
#ifndef BATON_CONTROLLER_RUNTIME_CONTROLLER_BACKUP_H_
#define BATON_CONTROLLER_RUNTIME_CONTROLLER_BACKUP_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "boost/asio/thread_pool.hpp"
#include "controller/runtime/calls/calls.h"
#include "controller/runtime/controller/controller_interface.h"
#include "controller/runtime/submit/controller_scope.h"
#include "controller/store/store.h"

namespace baton::controller {

/// The destructor moves its folder to the trash (trash.h). Thread-compatible; all methods block on
/// the disk.
class BackupSet : public BackupFiles {
 public:
  /// RESOURCE_EXHAUSTED: the disk is full. UNAVAILABLE (BACKUP_OVERTAKEN): jobs deleted checkpoints
  /// faster than they could be linked. UNIMPLEMENTED: this store cannot be copied.
  static absl::StatusOr<std::unique_ptr<BackupSet>> Make(const std::string& data_root,
                                                         store::Store& store);
  ~BackupSet() override;
  BackupSet(const BackupSet&) = delete;

  const std::vector<BackupFile>& files() const override { return files_; }
  const std::vector<std::string>& damaged() const override { return damaged_; }

 private:
  explicit BackupSet(std::string folder) : folder_(std::move(folder)) {}
  absl::Status List();
  // `checkpoint`: its path below the data root.
  void Compare(const std::string& checkpoint);

  const std::string folder_;
  std::vector<BackupFile> files_;
  std::vector<std::string> damaged_;
};

/// The backups of a controller, one at a time, on a thread of its own, because linking all files
/// may take long. Thread-safe.
class Backups {
 public:
  /// `scope` outlives this.
  explicit Backups(ControllerScope* scope);

  /// FAILED_PRECONDITION (BACKUP_RUNNING) while the files of an earlier backup are held.
  void Make(Callback<std::shared_ptr<BackupFiles>> done);
  /// Waits for the backup that is being made. Call it after the gate is closed.
  void Join() { thread_.join(); }

 private:
  ControllerScope* const scope_;
  boost::asio::thread_pool thread_{1};  // of low priority
  // Shared with the files of a backup, which may outlive this.
  const std::shared_ptr<std::atomic<bool>> held_ = std::make_shared<std::atomic<bool>>(false);
};

/// Moves to the trash what backups of an earlier process left behind.
void RemoveUnfinishedBackups(const std::string& data_root);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CONTROLLER_BACKUP_H_
