#include "sdk/worker/checkpoint_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "google/protobuf/util/json_util.h"
#include "sdk/common/base/file_error.h"
#include "sdk/common/base/relative_path.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/rpc/error.h"
#include "xxhash.h"

namespace baton {
namespace {

namespace fs = std::filesystem;

absl::Status SyncPath(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return FileError("open", path, errno);
  const absl::Cleanup closer = [fd] { close(fd); };
  if (fsync(fd) != 0) return FileError("fsync", path, errno);
  return absl::OkStatus();
}

absl::Status HashFile(const std::string& path, v1::FileHash& hash) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return FileError("open", path, errno);
  const absl::Cleanup closer = [fd] { close(fd); };
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                       XXH3_freeState);
  XXH3_64bits_reset(state.get());
  std::vector<char> buffer(size_t{1} << 20);
  int64_t size = 0;
  while (true) {
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError("read", path, errno);
    if (got == 0) break;
    XXH3_64bits_update(state.get(), buffer.data(), static_cast<size_t>(got));
    size += got;
  }
  if (fsync(fd) != 0) return FileError("fsync", path, errno);
  hash.set_size_bytes(size);
  hash.set_xxh3(absl::StrFormat("%016x", XXH3_64bits_digest(state.get())));
  return absl::OkStatus();
}

/// `path` if it is a file, else every file and folder under it, and itself.
absl::Status ListFiles(const std::string& path, std::vector<std::string>& files,
                       std::vector<std::string>& folders) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) {
    files.push_back(path);
    return absl::OkStatus();
  }
  if (!error) folders.push_back(path);
  for (auto it = fs::recursive_directory_iterator(path, error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    const bool folder = it->is_directory(error);
    if (error) break;
    (folder ? folders : files).push_back(it->path().string());
  }
  if (!error) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("list ", path, ": ", error.message()));
}

}  // namespace

absl::Status ReportCheckpointFiles(const std::string& directory, v1::TaskResult& result) {
  return ReportCheckpointFiles(directory, {"."}, result);
}

absl::Status ReportCheckpointFiles(const std::string& directory,
                                   const std::vector<std::string>& parts, v1::TaskResult& result,
                                   const std::vector<std::string>& optimizer) {
  std::vector<std::string> files;
  std::vector<std::string> folders = {directory};
  for (const std::string& part : parts) {
    BATON_RETURN_IF_ERROR(
        ListFiles(part == "." ? directory : absl::StrCat(directory, "/", part), files, folders));
  }
  std::vector<std::string> of_optimizer;
  for (const std::string& part : optimizer) {
    BATON_RETURN_IF_ERROR(ListFiles(absl::StrCat(directory, "/", part), of_optimizer, folders));
  }
  files.insert(files.end(), of_optimizer.begin(), of_optimizer.end());
  std::sort(files.begin(), files.end());
  for (const std::string& file : files) {
    v1::FileHash* hash = result.add_files();
    hash->set_path(fs::path(file).lexically_relative(directory).string());
    BATON_RETURN_IF_ERROR(HashFile(file, *hash));
    const bool marked =
        std::find(of_optimizer.begin(), of_optimizer.end(), file) != of_optimizer.end();
    if (marked) hash->set_optimizer(true);
  }
  for (const std::string& folder : folders) BATON_RETURN_IF_ERROR(SyncPath(folder));
  return absl::OkStatus();
}

absl::Status VerifyCheckpointFiles(const std::string& directory, CheckpointUse use) {
  const std::string path = absl::StrCat(directory, "/files.json");
  std::error_code error;
  if (!fs::exists(path, error)) return absl::OkStatus();
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  v1::CheckpointManifest manifest;
  if (!file || !google::protobuf::util::JsonStringToMessage(text.str(), &manifest).ok()) {
    return absl::DataLossError(absl::StrCat(path, " cannot be read"));
  }
  if (use == CheckpointUse::kTraining && manifest.removed_size() > 0) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, "CHECKPOINT_WEIGHTS_ONLY",
        absl::StrCat(directory, " has weights only, and training cannot go on from it: ",
                     manifest.removed(0).path(),
                     " was removed when its job had succeeded (trainer.keep_optimizer: newest)"));
  }
  for (const v1::FileHash& expected : manifest.files()) {
    if (use == CheckpointUse::kWeights && expected.optimizer()) continue;
    if (!StaysBelow(expected.path())) {
      return absl::DataLossError(
          absl::StrCat(path, " names '", expected.path(), "', which is not in its folder"));
    }
    const std::string name = absl::StrCat(directory, "/", expected.path());
    v1::FileHash found;
    const absl::Status read = HashFile(name, found);
    if (!read.ok()) return absl::DataLossError(read.message());
    if (found.size_bytes() != expected.size_bytes() || found.xxh3() != expected.xxh3()) {
      return absl::DataLossError(absl::StrCat(
          name, " is not what was saved (", found.size_bytes(), " bytes, checksum ", found.xxh3(),
          "; expected ", expected.size_bytes(), " and ", expected.xxh3(), ")"));
    }
  }
  return absl::OkStatus();
}

absl::Status WriteCheckpointFile(const std::string& path, absl::string_view content) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  if (error)
    return absl::InternalError(absl::StrCat("make folder of ", path, ": ", error.message()));
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return FileError("open", path, errno);
  const absl::Cleanup closer = [fd] { close(fd); };
  while (!content.empty()) {
    const ssize_t wrote = write(fd, content.data(), content.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return FileError("write", path, errno);
    content.remove_prefix(static_cast<size_t>(wrote));
  }
  if (fsync(fd) != 0) return FileError("fsync", path, errno);
  return absl::OkStatus();
}

}  // namespace baton
