#include "controller/store/power_cut_disk.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>

#include "absl/strings/match.h"
#include "sqlite3.h"

namespace baton::store {
namespace {

PowerCutDisk* g_disk = nullptr;
sqlite3_vfs* g_real = nullptr;

// In memory the real VFS's file follows this struct.
struct NotedFile {
  sqlite3_file base;
  std::string* path;  // null: not noted
};

sqlite3_file* RealFile(sqlite3_file* file) {
  return reinterpret_cast<sqlite3_file*>(reinterpret_cast<NotedFile*>(file) + 1);
}
const std::string* NotedPath(sqlite3_file* file) {
  return reinterpret_cast<NotedFile*>(file)->path;
}

int NotedClose(sqlite3_file* file) {
  delete reinterpret_cast<NotedFile*>(file)->path;
  return RealFile(file)->pMethods->xClose(RealFile(file));
}
int NotedRead(sqlite3_file* file, void* out, int size, sqlite3_int64 offset) {
  return RealFile(file)->pMethods->xRead(RealFile(file), out, size, offset);
}
int NotedWrite(sqlite3_file* file, const void* bytes, int size, sqlite3_int64 offset) {
  const int rc = RealFile(file)->pMethods->xWrite(RealFile(file), bytes, size, offset);
  if (rc == SQLITE_OK && g_disk != nullptr && NotedPath(file) != nullptr) {
    g_disk->Written(*NotedPath(file), static_cast<uint64_t>(offset),
                    std::string(static_cast<const char*>(bytes), static_cast<size_t>(size)));
  }
  return rc;
}
int NotedTruncate(sqlite3_file* file, sqlite3_int64 size) {
  const int rc = RealFile(file)->pMethods->xTruncate(RealFile(file), size);
  if (rc == SQLITE_OK && g_disk != nullptr && NotedPath(file) != nullptr) {
    g_disk->Truncated(*NotedPath(file), static_cast<uint64_t>(size));
  }
  return rc;
}
int NotedSync(sqlite3_file* file, int flags) {
  const int rc = RealFile(file)->pMethods->xSync(RealFile(file), flags);
  if (rc == SQLITE_OK && g_disk != nullptr && NotedPath(file) != nullptr) {
    g_disk->Synced(*NotedPath(file));
  }
  return rc;
}
int NotedFileSize(sqlite3_file* file, sqlite3_int64* out) {
  return RealFile(file)->pMethods->xFileSize(RealFile(file), out);
}
int NotedLock(sqlite3_file* file, int kind) {
  return RealFile(file)->pMethods->xLock(RealFile(file), kind);
}
int NotedUnlock(sqlite3_file* file, int kind) {
  return RealFile(file)->pMethods->xUnlock(RealFile(file), kind);
}
int NotedCheckReservedLock(sqlite3_file* file, int* out) {
  return RealFile(file)->pMethods->xCheckReservedLock(RealFile(file), out);
}
int NotedFileControl(sqlite3_file* file, int op, void* arg) {
  return RealFile(file)->pMethods->xFileControl(RealFile(file), op, arg);
}
int NotedSectorSize(sqlite3_file* file) {
  return RealFile(file)->pMethods->xSectorSize(RealFile(file));
}
int NotedDeviceCharacteristics(sqlite3_file* file) {
  return RealFile(file)->pMethods->xDeviceCharacteristics(RealFile(file));
}
int NotedShmMap(sqlite3_file* file, int page, int size, int extend, void volatile** out) {
  return RealFile(file)->pMethods->xShmMap(RealFile(file), page, size, extend, out);
}
int NotedShmLock(sqlite3_file* file, int offset, int n, int flags) {
  return RealFile(file)->pMethods->xShmLock(RealFile(file), offset, n, flags);
}
void NotedShmBarrier(sqlite3_file* file) { RealFile(file)->pMethods->xShmBarrier(RealFile(file)); }
int NotedShmUnmap(sqlite3_file* file, int remove) {
  return RealFile(file)->pMethods->xShmUnmap(RealFile(file), remove);
}

const sqlite3_io_methods kMethods = {2,
                                     NotedClose,
                                     NotedRead,
                                     NotedWrite,
                                     NotedTruncate,
                                     NotedSync,
                                     NotedFileSize,
                                     NotedLock,
                                     NotedUnlock,
                                     NotedCheckReservedLock,
                                     NotedFileControl,
                                     NotedSectorSize,
                                     NotedDeviceCharacteristics,
                                     NotedShmMap,
                                     NotedShmLock,
                                     NotedShmBarrier,
                                     NotedShmUnmap,
                                     nullptr,
                                     nullptr};

int OpenFile(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  file->pMethods = nullptr;
  auto* noted = reinterpret_cast<NotedFile*>(file);
  noted->path = nullptr;
  const int rc = g_real->xOpen(g_real, name, RealFile(file), flags, out_flags);
  if (rc != SQLITE_OK) return rc;
  file->pMethods = &kMethods;
  if (name != nullptr && g_disk != nullptr) {
    noted->path = new std::string(name);
    g_disk->Opened(name);
  }
  return rc;
}

int DeleteFile(sqlite3_vfs*, const char* name, int sync) {
  const int rc = g_real->xDelete(g_real, name, sync);
  if (rc == SQLITE_OK && g_disk != nullptr) g_disk->Deleted(name);
  return rc;
}

sqlite3_vfs MakeVfs() {
  sqlite3_vfs vfs = *g_real;
  vfs.zName = "power-cut";
  vfs.szOsFile = static_cast<int>(sizeof(NotedFile)) + g_real->szOsFile;
  vfs.pNext = nullptr;
  vfs.xOpen = OpenFile;
  vfs.xDelete = DeleteFile;
  return vfs;
}

}  // namespace

PowerCutDisk::PowerCutDisk() {
  if (g_real == nullptr) g_real = sqlite3_vfs_find(nullptr);
  static sqlite3_vfs vfs = MakeVfs();
  g_disk = this;
  sqlite3_vfs_register(&vfs, /*makeDflt=*/1);
}

PowerCutDisk::~PowerCutDisk() {
  sqlite3_vfs_unregister(sqlite3_vfs_find("power-cut"));
  sqlite3_vfs_register(g_real, /*makeDflt=*/1);
  g_disk = nullptr;
}

void PowerCutDisk::Apply(const Change& change, std::string& content) {
  if (change.truncate) return content.resize(change.offset, '\0');
  const size_t end = change.offset + change.bytes.size();
  if (content.size() < end) content.resize(end, '\0');
  content.replace(change.offset, change.bytes.size(), change.bytes);
}

void PowerCutDisk::Opened(const std::string& path) {
  absl::MutexLock lock(&mu_);
  const auto [file, fresh] = files_.try_emplace(path);
  if (!fresh) return;
  std::ifstream in(path, std::ios::binary);
  file->second.synced.assign(std::istreambuf_iterator<char>(in), {});
}

void PowerCutDisk::Written(const std::string& path, uint64_t offset, const std::string& bytes) {
  absl::MutexLock lock(&mu_);
  files_[path].unsynced.push_back({false, offset, bytes});
}

void PowerCutDisk::Truncated(const std::string& path, uint64_t size) {
  absl::MutexLock lock(&mu_);
  files_[path].unsynced.push_back({true, size, ""});
}

void PowerCutDisk::Synced(const std::string& path) {
  absl::MutexLock lock(&mu_);
  File& file = files_[path];
  for (const Change& change : file.unsynced) Apply(change, file.synced);
  file.unsynced.clear();
  ++syncs_;
}

void PowerCutDisk::Deleted(const std::string& path) {
  absl::MutexLock lock(&mu_);
  files_.erase(path);
}

int64_t PowerCutDisk::syncs() const {
  absl::MutexLock lock(&mu_);
  return syncs_;
}

void PowerCutDisk::CutInto(const std::string& folder, std::mt19937& random) {
  absl::MutexLock lock(&mu_);
  // Sometimes the writes up to a point, sometimes each for itself, sometimes none.
  const auto kept_percent = static_cast<unsigned>(random() % 3 * 50);
  const bool in_order = random() % 2 == 0;
  for (const auto& [path, file] : files_) {
    if (absl::EndsWith(path, "-shm")) continue;  // it is memory
    std::string content = file.synced;
    for (const Change& change : file.unsynced) {
      const bool kept = random() % 100 < kept_percent;
      if (kept) Apply(change, content);
      if (!kept && in_order) break;
    }
    std::ofstream(folder + "/" + std::filesystem::path(path).filename().string(), std::ios::binary)
        << content;
  }
}

}  // namespace baton::store
