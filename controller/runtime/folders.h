// Folders that outlive a power cut, and copies of files that never change.
#ifndef BATON_CONTROLLER_RUNTIME_FOLDERS_H_
#define BATON_CONTROLLER_RUNTIME_FOLDERS_H_

#include <filesystem>

#include "absl/status/status.h"

namespace baton::controller {

/// Makes the names in a folder survive a power cut. INTERNAL.
absl::Status SyncFolder(const std::filesystem::path& folder);
/// Makes a folder and those it stands in, where they are missing, and all of them survive a power
/// cut. RESOURCE_EXHAUSTED (disk full), UNAVAILABLE.
absl::Status MakeFolder(const std::filesystem::path& folder);
/// A second name for a file, or a copy where the file system cannot give one; folders on the way
/// are made, and what stood there is replaced. It survives a power cut. RESOURCE_EXHAUSTED (disk
/// full) and UNAVAILABLE name both.
absl::Status LinkFile(const std::filesystem::path& from, const std::filesystem::path& to);
/// The same of everything in a folder; what stood at `to` is removed.
absl::Status LinkFolder(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_FOLDERS_H_
