// Locks of folders whose files some read while others would remove them.
#ifndef BATON_CONTROLLER_RUNTIME_FILES_FOLDER_LOCK_H_
#define BATON_CONTROLLER_RUNTIME_FILES_FOLDER_LOCK_H_

#include <filesystem>
#include <optional>

namespace baton::controller {

/// Locks a folder (flock) until it is destroyed, also against other processes. Locks nothing where
/// there is no such folder, or the file system has no locks. Never blocks for longer than a removal
/// takes.
class FolderLock {
 public:
  /// Any number of readers at a time. Waits for a removal under way.
  static FolderLock ForReading(const std::filesystem::path& folder);
  /// Nullopt: someone reads the folder.
  static std::optional<FolderLock> ForRemoval(const std::filesystem::path& folder);

  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;

 private:
  explicit FolderLock(int fd) : fd_(fd) {}

  int fd_;  // -1: nothing is locked
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_FILES_FOLDER_LOCK_H_
