// One consistent copy of everything that the controller keeps, taken while it runs.
//
// The files that rows name are linked under a folder of their own, where no job deletes them; then
// the database is copied; then what came meanwhile is linked too. A checkpoint that the copied rows
// name and that is not there any more means that all begins anew.
#ifndef BATON_CONTROLLER_RUNTIME_BACKUP_H_
#define BATON_CONTROLLER_RUNTIME_BACKUP_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/runtime/controller_interface.h"
#include "controller/store/store.h"

namespace baton::controller {

/// Its folder is removed with it. Thread-compatible; everything here blocks on the disk.
class BackupSet : public BackupFiles {
 public:
  /// RESOURCE_EXHAUSTED: the disk is full. UNAVAILABLE (BACKUP_OVERTAKEN): jobs deleted checkpoints
  /// faster than they could be copied. UNIMPLEMENTED: not with this store.
  static absl::StatusOr<std::unique_ptr<BackupSet>> Make(const std::string& data_root,
                                                         store::Store& store);
  ~BackupSet() override;
  BackupSet(const BackupSet&) = delete;

  const std::vector<BackupFile>& files() const override { return files_; }

 private:
  explicit BackupSet(std::string folder) : folder_(std::move(folder)) {}
  absl::Status List();

  const std::string folder_;
  std::vector<BackupFile> files_;
};

/// Deletes what backups of an earlier process left.
void RemoveUnfinishedBackups(const std::string& data_root);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_BACKUP_H_
