#include "controller/runtime/files/uploads.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "controller/access/caller.h"
#include "controller/runtime/files/folders.h"
#include "controller/runtime/files/trash.h"
#include "controller/runtime/files/upload_path.h"
#include "sdk/common/base/digest.h"
#include "sdk/common/base/file_error.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;

constexpr char kReceivedPrefix[] = ".upload-";
constexpr size_t kCopiedAtOnce = 1 << 20;

int64_t Counted(int64_t size) { return std::max(size, Uploads::kMinCountedBytes); }

// The size of a regular file at a path without links; -1: there is none.
int64_t SizeOf(const std::string& path) {
  struct stat found {};
  const bool is_file = ::lstat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode);
  return is_file ? static_cast<int64_t>(found.st_size) : -1;
}

absl::Status CannotWrite(const std::string& folder, int error) {
  const std::string what = absl::StrCat("cannot write under ", folder, ": ", std::strerror(error));
  if (!IsDiskFull(error)) return absl::InternalError(what);
  return MakeError(absl::StatusCode::kResourceExhausted, "DISK_FULL",
                   absl::StrCat(what, "; free space under the data root"));
}

absl::Status OverQuota(const std::string& project, int64_t used, int64_t limit) {
  return MakeError(
      absl::StatusCode::kResourceExhausted, "QUOTA_UPLOADS",
      absl::StrCat(
          "the uploads of project ", project, " take ", used, " bytes of ", limit,
          ", and this file does not fit; delete jobs whose data are not needed any more "
          "(a file that no job names is removed a day after its upload), or have the limit "
          "raised with `baton project set ",
          project, " --max-upload-bytes N`"));
}

// A file descriptor that closes itself.
class OwnedFd {
 public:
  explicit OwnedFd(int fd) : fd_(fd) {}
  ~OwnedFd() { Close(); }
  OwnedFd(const OwnedFd&) = delete;
  OwnedFd& operator=(const OwnedFd&) = delete;
  int get() const { return fd_; }
  void Reset(int fd) {
    Close();
    fd_ = fd;
  }
  bool Close() {
    const bool closed = fd_ < 0 || ::close(fd_) == 0;
    fd_ = -1;
    return closed;
  }

 private:
  int fd_;
};

bool WriteAll(int fd, absl::string_view data) {
  while (!data.empty()) {
    const ssize_t n = ::write(fd, data.data(), data.size());
    if (n < 0 && errno != EINTR) return false;
    if (n > 0) data.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

}  // namespace

struct Uploads::Incoming::File {
  File(Uploads* owner, std::string of_project, std::string with_name)
      : uploads(owner), project(std::move(of_project)), name(std::move(with_name)) {
    static std::atomic<uint64_t> counter{0};
    temporary = absl::StrCat(owner->folder_, "/", kReceivedPrefix, ::getpid(), "-", ++counter);
  }

  Uploads* const uploads;
  const std::string project;
  const std::string name;
  std::string temporary;
  OwnedFd out{-1};
  int error = 0;  // the system's error that prevents writing
  Sha256Hasher hash;
  int64_t size = 0;
  int64_t reserved = 0, unreserved = 0;  // its part of the project's account
  Room* room = nullptr;                  // its reserved bytes are used first
};

Uploads::Incoming::Incoming(std::unique_ptr<File> file) : file_(std::move(file)) {}

Uploads::Incoming::~Incoming() {
  file_->uploads->Release(file_->project, file_->reserved, file_->unreserved);
  MoveToTrash(file_->uploads->data_root_, file_->temporary).IgnoreError();  // none if it was kept
}

int64_t Uploads::Incoming::size_bytes() const { return file_->size; }

absl::Status Uploads::Incoming::Append(absl::string_view data) {
  File& file = *file_;
  const int64_t bytes = static_cast<int64_t>(data.size());
  if (file.size + bytes > kMaxFileBytes) {
    return MakeError(absl::StatusCode::kResourceExhausted, "FILE_TOO_LARGE",
                     absl::StrCat("the file is larger than ", kMaxFileBytes,
                                  " bytes; put it on the controller's machine yourself and "
                                  "give its absolute path"));
  }
  BATON_RETURN_IF_ERROR(file.uploads->Reserve(&file, bytes));
  file.size += bytes;
  file.hash.Add(data);
  if (file.error == 0 && !WriteAll(file.out.get(), data)) file.error = errno;
  return file.error == 0 ? absl::OkStatus() : CannotWrite(file.uploads->folder_, file.error);
}

absl::StatusOr<std::string> Uploads::Incoming::Keep(absl::string_view expected) {
  File& file = *file_;
  if (file.error == 0 && (::fsync(file.out.get()) != 0 || !file.out.Close())) file.error = errno;
  if (file.error != 0) return CannotWrite(file.uploads->folder_, file.error);
  const std::string content = absl::BytesToHexString(file.hash.Finish());
  if (!expected.empty() && content != expected) {
    return absl::DataLossError(
        absl::StrCat("has the SHA-256 ", content, ", and not ", expected, ": it was changed"));
  }
  return file.uploads->Name(&file, content);
}

Uploads::Uploads(std::string data_root, LimitOf limit_of)
    : data_root_(std::move(data_root)),
      folder_(data_root_ + "/files"),
      limit_of_(std::move(limit_of)) {}

absl::Status Uploads::Open() {
  std::error_code code;
  fs::create_directories(folder_, code);
  if (code) {
    return absl::FailedPreconditionError(absl::StrCat(
        "data root ", data_root_, ": ", code.message(), "; give another with --data-root"));
  }
  std::vector<fs::path> unfinished;
  BATON_ASSIGN_OR_RETURN(const auto projects, ListFolder(folder_));
  for (const fs::directory_entry& top : projects) {
    const std::string project = top.path().filename().string();
    if (absl::StartsWith(project, kReceivedPrefix)) unfinished.push_back(top.path());
    std::error_code gone;
    if (!access::ValidId(project) || !fs::is_directory(top.symlink_status(gone))) continue;
    absl::MutexLock lock(&mu_);
    BATON_ASSIGN_OR_RETURN(const auto contents, ListFolder(top.path()));
    for (const fs::directory_entry& content : contents) {
      if (!IsSha256(content.path().filename().string())) continue;
      BATON_ASSIGN_OR_RETURN(const auto files, ListFolder(content.path()));
      for (const fs::directory_entry& entry : files) {
        const int64_t size = SizeOf(entry.path().string());
        if (size < 0) continue;
        accounts_[project].kept += Counted(size);
        accounts_[project].largest = std::max(accounts_[project].largest, size);
      }
    }
  }
  for (const fs::path& path : unfinished) MoveToTrash(data_root_, path).IgnoreError();
  return absl::OkStatus();
}

std::unique_ptr<Uploads::Incoming> Uploads::Receive(const std::string& project,
                                                    const std::string& name) {
  auto file = std::make_unique<Incoming::File>(this, project, UploadName(name));
  std::unique_ptr<Incoming> incoming(new Incoming(std::move(file)));
  // Mode 0444: nothing may open the file for writing later, because checkpoints have links to it.
  incoming->file_->out.Reset(::open(incoming->file_->temporary.c_str(),
                                    O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0444));
  if (incoming->file_->out.get() < 0) incoming->file_->error = errno;
  return incoming;
}

// Bytes are reserved before they are written, so that parallel uploads cannot exceed the limit
// together. A file without room may go on while it could be a copy of a kept file, which would take
// no space: that is, while it is not longer than the project's largest file.
absl::Status Uploads::Reserve(Incoming::File* file, int64_t bytes) {
  const int64_t limit = limit_of_(file->project);
  const int64_t all = bytes;
  if (file->room != nullptr) {  // the account already counts these bytes
    const int64_t reserved = std::min(bytes, file->room->reserved_);
    const int64_t unreserved = std::min(bytes - reserved, file->room->unreserved_);
    file->room->reserved_ -= reserved;
    file->room->unreserved_ -= unreserved;
    file->reserved += reserved;
    file->unreserved += unreserved;
    bytes -= reserved + unreserved;
    if (bytes == 0) return absl::OkStatus();
  }
  absl::MutexLock lock(&mu_);
  Account& account = accounts_[file->project];
  if (limit == 0 || account.kept + account.reserved + bytes <= limit) {
    account.reserved += bytes;
    file->reserved += bytes;
    return absl::OkStatus();
  }
  if (file->size + all > account.largest ||
      account.reserved + account.unreserved + bytes > std::max(limit, account.largest)) {
    return OverQuota(file->project, account.kept + account.reserved, limit);
  }
  account.unreserved += bytes;
  file->unreserved += bytes;
  return absl::OkStatus();
}

void Uploads::Release(const std::string& project, int64_t reserved, int64_t unreserved) {
  absl::MutexLock lock(&mu_);
  const auto account = accounts_.find(project);
  if (account == accounts_.end()) return;
  Account& of = account->second;
  of.reserved -= reserved;
  of.unreserved -= unreserved;
  if (of.kept == 0 && of.reserved == 0 && of.unreserved == 0) accounts_.erase(account);
}

absl::StatusOr<std::string> Uploads::Name(Incoming::File* file, const std::string& content) {
  const std::string folder = absl::StrCat("files/", file->project, "/", content);
  const std::string path = absl::StrCat(folder, "/", file->name);
  const int64_t limit = limit_of_(file->project);
  {
    absl::MutexLock lock(&mu_);
    Account& account = accounts_[file->project];
    const int64_t before = SizeOf(Absolute(path));
    const int64_t kept = account.kept + Counted(file->size) - (before < 0 ? 0 : Counted(before));
    const int64_t of_others = account.reserved - file->reserved;
    if (limit > 0 && before < 0 && kept + of_others > limit) {
      return OverQuota(file->project, account.kept + of_others, limit);
    }
    std::error_code code;
    fs::create_directories(Absolute(folder), code);
    // Replaces an existing file: this one is known to be complete, and its age starts now.
    ::utimensat(AT_FDCWD, file->temporary.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
    if (!code) fs::rename(file->temporary, Absolute(path), code);
    if (code) return CannotWrite(folder_, code.value());
    ++names_given_;
    account.kept = kept;
    account.largest = std::max(account.largest, file->size);
    account.reserved -= std::exchange(file->reserved, 0);
    account.unreserved -= std::exchange(file->unreserved, 0);
  }
  for (const std::string& at :
       {Absolute(folder), absl::StrCat(folder_, "/", file->project), folder_}) {
    BATON_RETURN_IF_ERROR(SyncFolder(at));
  }
  return path;
}

absl::StatusOr<std::string> Uploads::Copy(const fs::path& source, const std::string& project,
                                          const std::string& hash, Room* room) {
  const auto cannot = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(source.string(), " ", why));
  };
  const OwnedFd in(::open(source.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat found {};
  if (in.get() < 0 || ::fstat(in.get(), &found) != 0) return cannot("cannot be read");
  if (!S_ISREG(found.st_mode)) return cannot("is not a file");  // to open a pipe may block forever
  const auto incoming = Receive(project, source.filename().string());
  incoming->file_->room = room;
  std::string piece(kCopiedAtOnce, '\0');
  while (true) {
    const ssize_t n = ::read(in.get(), piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return cannot("cannot be read");
    if (n == 0) break;
    BATON_RETURN_IF_ERROR(
        incoming->Append(absl::string_view(piece.data(), static_cast<size_t>(n))));
  }
  auto kept = incoming->Keep(IsSha256(hash) ? hash : "");
  if (!absl::IsDataLoss(kept.status())) return kept;
  return absl::DataLossError(absl::StrCat(source.string(), " ", kept.status().message()));
}

bool Uploads::Touch(const std::string& path) {
  if (!ParseUploadPath(path).has_value()) return false;
  absl::MutexLock lock(&mu_);
  if (SizeOf(Absolute(path)) < 0) return false;
  return ::utimensat(AT_FDCWD, Absolute(path).c_str(), nullptr, AT_SYMLINK_NOFOLLOW) == 0;
}

// Returns the size of what it removed; -1: nothing. The age is read under the lock that also guards
// naming and touching a file. So a file that a caller was just told of is never removed.
int64_t Uploads::RemoveIfOld(const std::string& path, const std::string& project,
                             absl::Time young) {
  const std::string absolute = Absolute(path);
  absl::MutexLock lock(&mu_);
  struct stat found {};
  if (::lstat(absolute.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) return -1;
  if (absl::TimeFromTimespec(found.st_mtim) >= young) return -1;
  // Renamed only: the removal of a large file takes long, and every upload waits for this lock.
  if (!MoveToTrash(data_root_, absolute).ok()) return -1;
  const fs::path folder = fs::path(absolute).parent_path();
  // Folders with other files stay.
  if (::rmdir(folder.c_str()) == 0) ::rmdir(folder.parent_path().c_str());
  accounts_[project].kept -= Counted(found.st_size);
  return found.st_size;
}

Uploads::Removed Uploads::RemoveUnnamed(const NamedUploads& named, absl::Time young,
                                        const std::function<bool()>& stop) {
  Removed removed;
  const auto projects = ListFolder(folder_);
  if (!projects.ok()) return removed;
  for (const fs::directory_entry& top : *projects) {
    const std::string project = top.path().filename().string();
    std::error_code code;
    if (!access::ValidId(project) || !fs::is_directory(top.symlink_status(code))) continue;
    uint64_t before = 0;
    {
      absl::MutexLock lock(&mu_);
      before = names_given_;
    }
    int64_t kept = 0, largest = 0;
    const auto look = [&](const fs::path& file) {
      const std::string path = file.lexically_relative(data_root_).string();
      if (!ParseUploadPath(path).has_value()) return;
      const int64_t size = named.Has(path, project) ? -1 : RemoveIfOld(path, project, young);
      if (size >= 0) {
        removed.bytes += size;
        ++removed.files;
      } else if (const int64_t stays = SizeOf(file.string()); stays >= 0) {
        kept += Counted(stays);
        largest = std::max(largest, stays);
      }
    };
    const auto contents = ListFolder(top.path());
    bool all = contents.ok();
    for (size_t i = 0; all && i < contents->size(); ++i) {
      if (stop()) return removed;
      const fs::directory_entry& content = (*contents)[i];
      if (!fs::is_directory(content.symlink_status(code))) continue;
      const auto files = ListFolder(content.path());
      all = files.ok();
      for (size_t k = 0; all && k < files->size(); ++k) look((*files)[k].path());
    }
    // A person may have removed files by hand. Files that were kept meanwhile may not have been
    // seen.
    absl::MutexLock lock(&mu_);
    if (!all || names_given_ != before) continue;
    Account& account = accounts_[project];
    account.kept = kept;
    account.largest = largest;
    if (kept == 0 && account.reserved == 0 && account.unreserved == 0) accounts_.erase(project);
  }
  return removed;
}

Uploads::Room::Room(Uploads* uploads, std::string project)
    : uploads_(uploads), project_(std::move(project)) {}

Uploads::Room::~Room() { uploads_->Release(project_, reserved_, unreserved_); }

uint64_t Uploads::Room::bytes() const {
  if (!limited_) return std::numeric_limits<uint64_t>::max();
  return static_cast<uint64_t>(reserved_ + unreserved_);
}

void Uploads::Room::Shrink(uint64_t bytes) {
  const int64_t stays = static_cast<int64_t>(std::min(bytes, this->bytes()));
  const int64_t reserved = std::min(reserved_, stays);
  const int64_t unreserved = std::min(unreserved_, stays - reserved);
  uploads_->Release(project_, std::exchange(reserved_, reserved) - reserved,
                    std::exchange(unreserved_, unreserved) - unreserved);
}

std::unique_ptr<Uploads::Room> Uploads::Hold(const std::string& project, uint64_t wanted) {
  std::unique_ptr<Room> room(new Room(this, project));
  const int64_t limit = limit_of_(project);
  room->limited_ = limit > 0;
  if (!room->limited_) return room;
  const int64_t most = static_cast<int64_t>(
      std::min<uint64_t>(wanted, static_cast<uint64_t>(std::numeric_limits<int64_t>::max())));
  absl::MutexLock lock(&mu_);
  Account& account = accounts_[project];
  const int64_t left = std::max(limit - account.kept - account.reserved, int64_t{0});
  // The same bound as in Reserve for content that may exist already.
  const int64_t again = std::min(
      account.largest, std::max(limit, account.largest) - account.reserved - account.unreserved);
  if (most <= left || again <= left) {
    account.reserved += room->reserved_ = std::min(most, left);
  } else {
    account.unreserved += room->unreserved_ = std::min(most, again);
  }
  return room;
}

int64_t Uploads::UsedBytes(const std::string& project) const {
  absl::MutexLock lock(&mu_);
  const auto account = accounts_.find(project);
  return account == accounts_.end() ? 0 : account->second.kept;
}

}  // namespace baton::controller
