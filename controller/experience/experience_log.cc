#include "controller/experience/experience_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/status_macros.h"
#include "xxhash.h"

namespace baton::experience {
namespace {

namespace fs = std::filesystem;

// A frame: magic, payload size, XXH3-64 of the payload (all little-endian), then the payload.
// docs/formats/experience-log.md has the picture.
constexpr uint32_t kMagic = 0x31584542;  // "BEX1"
constexpr size_t kHeader = 16;
constexpr uint64_t kRollOver = 64u << 20;
constexpr uint32_t kMaxPayload = 1u << 30;

void PutLittleEndian(char* out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out[i] = static_cast<char>(value >> (8 * i));
}

uint64_t TakeLittleEndian(const char* in, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) {
    value |= static_cast<uint64_t>(static_cast<unsigned char>(in[i])) << (8 * i);
  }
  return value;
}

absl::Status SystemError(absl::string_view what, const std::string& path) {
  const int error = errno;
  const std::string message = absl::StrCat(what, " ", path, ": ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT) {
    return absl::ResourceExhaustedError(message + "; free space under the data root");
  }
  if (error == EMFILE || error == ENFILE || error == ENOMEM) {  // of the process, not of the file
    return absl::UnavailableError(message);
  }
  // The bytes are there, and the user can restore the permission. EIO is a damaged disk: waiting
  // would not bring the bytes back, so they count as lost.
  if (error == EACCES) {
    return absl::UnavailableError(message + "; let the controller's user read and write it");
  }
  return error == ENOENT ? absl::OutOfRangeError(message) : absl::InternalError(message);
}

absl::Status ReadFully(int fd, const std::string& path, uint64_t offset, char* out, size_t size) {
  while (size > 0) {
    const ssize_t n = ::pread(fd, out, size, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError("cannot read", path);
    if (n == 0) return absl::OutOfRangeError(absl::StrCat(path, " ends at ", offset));
    out += n;
    offset += static_cast<uint64_t>(n);
    size -= static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

class FileLog : public ExperienceLog {
 public:
  explicit FileLog(std::string directory) : directory_(std::move(directory)) {}

  // An existing file is never written to again: its last record may be torn by a power cut, or rows
  // may name places behind its end.
  absl::Status FindNewest() {
    absl::MutexLock lock(&mu_);
    const FileDescriptor folder(::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder.get() < 0) return SystemError("cannot open", directory_);
    for (uint32_t number : Numbers()) file_ = std::max(file_, number);
    return absl::OkStatus();
  }

  absl::StatusOr<Location> Append(absl::string_view payload) override {
    if (payload.size() > kMaxPayload) {
      return absl::InvalidArgumentError(absl::StrCat("a record of ", payload.size(), " bytes"));
    }
    absl::MutexLock lock(&mu_);
    if (fd_ == nullptr || end_ >= kRollOver) {
      BATON_RETURN_IF_ERROR(StartFile(file_ + 1));
    }
    std::string frame(kHeader, '\0');
    PutLittleEndian(&frame[0], kMagic, 4);
    PutLittleEndian(&frame[4], payload.size(), 4);
    PutLittleEndian(&frame[8], XXH3_64bits(payload.data(), payload.size()), 8);
    frame.append(payload.data(), payload.size());
    const std::string path = PathOf(file_);
    for (size_t done = 0; done < frame.size();) {
      const ssize_t n = ::pwrite(fd_->get(), frame.data() + done, frame.size() - done,
                                 static_cast<off_t>(end_ + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        const absl::Status status = SystemError("cannot append to", path);
        if (::ftruncate(fd_->get(), static_cast<off_t>(end_)) != 0) {
          Log(LogLevel::kWarn, "half a record stays at the end of a file", {{"file", path}});
        }
        return status;
      }
      done += static_cast<size_t>(n);
    }
    Location at{file_, end_, static_cast<uint32_t>(payload.size())};
    end_ += frame.size();
    return at;
  }

  absl::StatusOr<std::string> Read(const Location& location) override {
    const std::string path = PathOf(location.file);
    const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd.get() < 0) return SystemError("cannot open", path);
    uint32_t size = 0;
    std::string payload;
    BATON_RETURN_IF_ERROR(ReadFrame(fd.get(), path, location.offset, &size, &payload));
    if (size != location.size) {
      return absl::DataLossError(absl::StrCat(path, " at ", location.offset, " holds ", size,
                                              " bytes, not ", location.size));
    }
    return payload;
  }

  absl::Status Sync() override {
    absl::MutexLock lock(&mu_);
    return SyncFile();
  }

  absl::Status DropFiles(uint32_t end, absl::FunctionRef<bool(uint32_t)> needed) override {
    absl::MutexLock lock(&mu_);
    absl::Status first;
    for (uint32_t number : Numbers()) {
      if (number >= end || number == file_) continue;
      if (needed(number)) continue;
      if (::unlink(PathOf(number).c_str()) != 0) {
        first.Update(SystemError("cannot remove", PathOf(number)));
      }
    }
    return first;
  }

 private:
  std::string PathOf(uint32_t number) const {
    return absl::StrCat(directory_, "/", LogFileName(number));
  }

  std::vector<uint32_t> Numbers() const {
    std::vector<uint32_t> numbers;
    std::error_code code;
    for (const auto& entry : fs::directory_iterator(directory_, code)) {
      uint32_t number = 0;
      const std::string name = entry.path().filename().string();
      absl::string_view stem = name;
      if (absl::ConsumeSuffix(&stem, ".log") && absl::SimpleAtoi(stem, &number) && number > 0 &&
          LogFileName(number) == name) {  // "1.log" is not the log's
        numbers.push_back(number);
      }
    }
    return numbers;
  }

  absl::Status SyncFile() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (fd_ == nullptr || ::fdatasync(fd_->get()) == 0) return absl::OkStatus();
    return SystemError("cannot sync", PathOf(file_));
  }

  absl::Status StartFile(uint32_t number) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    BATON_RETURN_IF_ERROR(SyncFile());  // Sync looks at the newest file alone
    const std::string path = PathOf(number);
    auto fd = std::make_unique<FileDescriptor>(
        ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (fd->get() < 0) return SystemError("cannot create", path);
    const FileDescriptor folder(::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder.get() < 0 || ::fsync(folder.get()) != 0) {
      return SystemError("cannot sync", directory_);
    }
    fd_ = std::move(fd);
    file_ = number;
    end_ = 0;
    return absl::OkStatus();
  }

  static absl::Status ReadFrame(int fd, const std::string& path, uint64_t offset, uint32_t* size,
                                std::string* payload = nullptr) {
    char header[kHeader];
    BATON_RETURN_IF_ERROR(ReadFully(fd, path, offset, header, kHeader));
    const uint64_t length = TakeLittleEndian(header + 4, 4);
    if (TakeLittleEndian(header, 4) != kMagic || length > kMaxPayload) {
      return absl::DataLossError(absl::StrCat(path, " has no record at ", offset));
    }
    struct stat info;
    if (::fstat(fd, &info) != 0) return SystemError("cannot stat", path);
    if (offset + kHeader + length > static_cast<uint64_t>(info.st_size)) {
      return absl::OutOfRangeError(absl::StrCat(path, " ends within the record at ", offset));
    }
    std::string bytes(length, '\0');
    BATON_RETURN_IF_ERROR(ReadFully(fd, path, offset + kHeader, bytes.data(), length));
    const uint64_t checksum = TakeLittleEndian(header + 8, 8);
    if (XXH3_64bits(bytes.data(), bytes.size()) != checksum) {
      return absl::DataLossError(absl::StrCat("wrong checksum in ", path, " at ", offset));
    }
    *size = static_cast<uint32_t>(length);
    if (payload != nullptr) *payload = std::move(bytes);
    return absl::OkStatus();
  }

  const std::string directory_;
  absl::Mutex mu_;
  std::unique_ptr<FileDescriptor> fd_ ABSL_GUARDED_BY(mu_);  // of file_; null before an Append
  uint32_t file_ ABSL_GUARDED_BY(mu_) = 0;                   // the newest; 0: there is none
  uint64_t end_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace

std::string LogFileName(uint32_t number) {
  return absl::StrCat(absl::Dec(number, absl::kZeroPad8), ".log");
}

absl::StatusOr<std::unique_ptr<ExperienceLog>> ExperienceLog::Open(const std::string& directory) {
  auto log = std::make_unique<FileLog>(directory);
  BATON_RETURN_IF_ERROR(log->FindNewest());
  return log;
}

}  // namespace baton::experience
