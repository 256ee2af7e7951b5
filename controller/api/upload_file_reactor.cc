#include "controller/api/upload_file_reactor.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "boost/asio/post.hpp"
#include "sdk/rpc/error.h"
#include "xxhash.h"

namespace baton::api {

namespace fs = std::filesystem;

namespace {

constexpr char kTemporaryPrefix[] = ".upload-";

// The last part of what the caller calls the file, fit for any file system.
std::string BaseName(const std::string& name) {
  std::string base = fs::path(name).filename().string();
  for (char& c : base) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '_';
  }
  if (base.size() > 200) base.erase(0, base.size() - 200);
  // Not in the middle of a character.
  while (!base.empty() && (static_cast<unsigned char>(base[0]) & 0xc0) == 0x80) base.erase(0, 1);
  return base.empty() || base == "." || base == ".." ? "file" : base;
}

// Makes a file's content, or the names in a folder, survive a power cut.
bool Sync(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool synced = ::fsync(fd) == 0;
  ::close(fd);
  return synced;
}

}  // namespace

// A file under way: a temporary name, the hash so far.
class UploadFileReactor::File {
 public:
  explicit File(std::string directory) : directory_(std::move(directory)) {
    static std::atomic<uint64_t> counter{0};
    temporary_ = absl::StrCat(directory_, "/", kTemporaryPrefix, ::getpid(), "-", ++counter);
    out_.open(temporary_, std::ios::binary | std::ios::trunc);
    XXH3_128bits_reset(hash_);
  }
  ~File() {
    XXH3_freeState(hash_);
    std::error_code code;
    fs::remove(temporary_, code);
  }
  File(const File&) = delete;

  absl::Status Append(const std::string& data) {
    size_ += static_cast<int64_t>(data.size());
    if (size_ > kMaxBytes) {
      return MakeError(absl::StatusCode::kResourceExhausted, "FILE_TOO_LARGE",
                       absl::StrCat("the file is larger than ", kMaxBytes,
                                    " bytes; put it on the controller's machine yourself and "
                                    "give its absolute path"));
    }
    XXH3_128bits_update(hash_, data.data(), data.size());
    out_.write(data.data(), static_cast<std::streamsize>(data.size()));
    return out_ ? absl::OkStatus() : WriteError();
  }

  absl::StatusOr<std::string> Keep(const std::string& name) {
    out_.close();
    if (!out_ || !Sync(temporary_)) return WriteError();
    const XXH128_hash_t digest = XXH3_128bits_digest(hash_);
    const std::string folder = absl::StrCat(absl::Hex(digest.high64, absl::kZeroPad16),
                                            absl::Hex(digest.low64, absl::kZeroPad16));
    const std::string base = BaseName(name);
    std::error_code code;
    fs::create_directories(absl::StrCat(directory_, "/", folder), code);
    if (!code) fs::rename(temporary_, absl::StrCat(directory_, "/", folder, "/", base), code);
    if (code) return absl::InternalError(absl::StrCat("cannot keep the file: ", code.message()));
    if (!Sync(absl::StrCat(directory_, "/", folder)) || !Sync(directory_)) return WriteError();
    return absl::StrCat("files/", folder, "/", base);
  }

  int64_t size() const { return size_; }

 private:
  absl::Status WriteError() const {
    return MakeError(
        absl::StatusCode::kResourceExhausted, "DISK_FULL",
        absl::StrCat("cannot write under ", directory_, "; free space under the data root"));
  }

  const std::string directory_;
  std::string temporary_;
  std::ofstream out_;
  XXH3_state_t* const hash_ = XXH3_createState();
  int64_t size_ = 0;
};

UploadFileReactor::UploadFileReactor(const absl::Status& allowed, std::string directory,
                                     boost::asio::thread_pool* files,
                                     const grpc::CallbackServerContext* context,
                                     v1::UploadFileResponse* response)
    : directory_(std::move(directory)), files_(files), context_(context), response_(response) {
  if (!allowed.ok()) {
    Finish(ToGrpc(allowed));
    return;
  }
  StartRead(&request_);
}

UploadFileReactor::~UploadFileReactor() = default;

UploadFileReactor::File& UploadFileReactor::OpenFile() {
  if (file_ == nullptr) file_ = std::make_unique<File>(directory_);
  return *file_;
}

absl::Status UploadFileReactor::Write() {
  if (request_.ByteSizeLong() > kMaxPieceBytes) {
    return MakeError(
        absl::StatusCode::kResourceExhausted, "MESSAGE_TOO_LARGE",
        absl::StrCat("JobService.UploadFile: a piece has ", request_.ByteSizeLong(),
                     " bytes, of at most ", kMaxPieceBytes, "; send the file in smaller pieces"),
        {{"max_bytes", absl::StrCat(kMaxPieceBytes)}});
  }
  if (!request_.filename().empty()) response_->set_path(request_.filename());
  return OpenFile().Append(request_.data());
}

absl::Status UploadFileReactor::Keep() {
  // A caller that died has not sent everything.
  if (context_->IsCancelled()) return absl::CancelledError("the caller is gone");
  auto path = OpenFile().Keep(response_->path());
  if (!path.ok()) return path.status();
  response_->set_path(*path);
  response_->set_size_bytes(file_->size());
  return absl::OkStatus();
}

void UploadFileReactor::OnReadDone(bool ok) {
  boost::asio::post(*files_, [this, ok] {
    const absl::Status status = ok ? Write() : Keep();
    if (!status.ok() || !ok) {
      if (tell_end_) tell_end_(status, status.ok() ? response_->path() : "");
      return Finish(ToGrpc(status));
    }
    StartRead(&request_);
  });
}

void UploadFileReactor::OnDone() {
  boost::asio::post(*files_, [file = std::move(file_)] {});
  delete this;
}

void RemoveUnfinishedUploads(const std::string& directory) {
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(directory, code)) {
    if (entry.path().filename().string().rfind(kTemporaryPrefix, 0) == 0) {
      std::error_code ignored;
      fs::remove(entry.path(), ignored);
    }
  }
}

}  // namespace baton::api
