#include "sdk/cli/cluster/backup_archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "xxhash.h"

namespace baton::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kManifest[] = "MANIFEST";
constexpr char kFirstLine[] = "baton-backup 1";
constexpr int64_t kMaxManifestBytes = int64_t{1} << 30;

class Hash {
 public:
  Hash() : state_(XXH3_createState(), XXH3_freeState) { XXH3_128bits_reset(state_.get()); }
  void Add(absl::string_view bytes) {
    XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
    size_ += static_cast<int64_t>(bytes.size());
  }
  int64_t size() const { return size_; }
  std::string Hex() const {
    const XXH128_hash_t digest = XXH3_128bits_digest(state_.get());
    return absl::StrCat(absl::Hex(digest.high64, absl::kZeroPad16),
                        absl::Hex(digest.low64, absl::kZeroPad16));
  }

 private:
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state_;
  int64_t size_ = 0;
};

std::string LineOf(const Hash& hash, const std::string& path) {
  return absl::StrCat(hash.Hex(), " ", hash.size(), " ", path, "\n");
}

// Below the folder, and nothing else: an archive may come from anybody.
bool IsSafePath(const std::string& path) {
  const fs::path p(path);
  if (path.empty() || p.is_absolute() || path.find('\0') != std::string::npos) return false;
  for (const fs::path& part : p) {
    if (part == ".." || part == "." || part.empty()) return false;
  }
  return path.find('\n') == std::string::npos;
}

// Not UNAVAILABLE, which is what the command says of a controller that does not answer.
absl::Status CannotWrite(absl::string_view path, int error) {
  const std::string message = absl::StrCat("cannot write ", path, ": ", std::strerror(error));
  return error == ENOSPC || error == EDQUOT ? absl::ResourceExhaustedError(message)
                                            : absl::FailedPreconditionError(message);
}

bool SyncThat(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool synced = fd >= 0 && ::fsync(fd) == 0;
  if (fd >= 0) ::close(fd);
  return synced;
}

std::string FolderOf(const std::string& path) {
  return fs::absolute(path).lexically_normal().parent_path().string();
}

class Writer : public BackupWriter {
 public:
  Writer(std::string path, std::string temporary)
      : path_(std::move(path)),
        temporary_(std::move(temporary)),
        archive_(archive_write_new(), archive_write_free) {}
  ~Writer() override {
    archive_.reset();
    std::error_code code;
    fs::remove(temporary_, code);
  }

  absl::Status Open() {
    const bool open = archive_write_add_filter_zstd(archive_.get()) == ARCHIVE_OK &&
                      archive_write_set_format_pax_restricted(archive_.get()) == ARCHIVE_OK &&
                      archive_write_open_filename(archive_.get(), temporary_.c_str()) == ARCHIVE_OK;
    return open ? absl::OkStatus() : Error();
  }

  absl::Status Begin(const std::string& path, int64_t size_bytes) override {
    if (absl::Status status = EndFile(); !status.ok()) return status;
    if (!IsSafePath(path) || path == kManifest) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", path, "' is not a path that a backup can have"));
    }
    if (absl::Status status = Header(path, size_bytes); !status.ok()) return status;
    current_ = path;
    expected_ = size_bytes;
    hash_ = Hash();
    return absl::OkStatus();
  }

  absl::Status Append(absl::string_view bytes) override {
    if (hash_.size() + static_cast<int64_t>(bytes.size()) > expected_) {
      return absl::InvalidArgumentError(absl::StrCat(current_, " is longer than announced"));
    }
    hash_.Add(bytes);
    return Write(bytes);
  }

  absl::Status Close() override {
    if (absl::Status status = EndFile(); !status.ok()) return status;
    if (manifest_.empty()) return absl::InvalidArgumentError("a backup must have files");
    const std::string manifest = absl::StrCat(kFirstLine, "\n", manifest_);
    if (absl::Status status = Header(kManifest, static_cast<int64_t>(manifest.size()));
        !status.ok()) {
      return status;
    }
    if (absl::Status status = Write(manifest); !status.ok()) return status;
    if (archive_write_close(archive_.get()) != ARCHIVE_OK) return Error();
    const bool kept = SyncThat(temporary_) && ::rename(temporary_.c_str(), path_.c_str()) == 0 &&
                      SyncThat(FolderOf(path_));
    return kept ? absl::OkStatus() : CannotWrite(path_, errno);
  }

 private:
  absl::Status Error() { return CannotWrite(path_, archive_errno(archive_.get())); }

  absl::Status Header(const std::string& path, int64_t size) {
    std::unique_ptr<archive_entry, void (*)(archive_entry*)> entry(archive_entry_new(),
                                                                   archive_entry_free);
    archive_entry_set_pathname(entry.get(), path.c_str());
    archive_entry_set_size(entry.get(), size);
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    archive_entry_set_perm(entry.get(), 0600);
    archive_entry_set_mtime(entry.get(), std::time(nullptr), 0);
    return archive_write_header(archive_.get(), entry.get()) == ARCHIVE_OK ? absl::OkStatus()
                                                                           : Error();
  }

  absl::Status Write(absl::string_view bytes) {
    while (!bytes.empty()) {
      const la_ssize_t n = archive_write_data(archive_.get(), bytes.data(), bytes.size());
      if (n <= 0) return Error();
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return absl::OkStatus();
  }

  absl::Status EndFile() {
    if (current_.empty()) return absl::OkStatus();
    if (hash_.size() != expected_) {
      return absl::InvalidArgumentError(
          absl::StrCat(current_, " ended after ", hash_.size(), " of ", expected_, " bytes"));
    }
    absl::StrAppend(&manifest_, LineOf(hash_, current_));
    current_.clear();
    return absl::OkStatus();
  }

  const std::string path_, temporary_;
  std::unique_ptr<archive, int (*)(archive*)> archive_;
  std::string current_;  // the file that is being written; empty: none
  int64_t expected_ = 0;
  Hash hash_;
  std::string manifest_;
};

// Unpacks beside the folder, which the result then becomes.
class Reader {
 public:
  Reader(std::string path, std::string folder, const std::function<void(const std::string&)>& heard)
      : path_(std::move(path)),
        folder_(std::move(folder)),
        heard_(heard),
        archive_(archive_read_new(), archive_read_free) {}
  ~Reader() {
    std::error_code code;
    fs::remove_all(folder_, code);  // what was not taken over
  }

  absl::StatusOr<RestoredBackup> Run() {
    archive_read_support_filter_zstd(archive_.get());
    archive_read_support_format_tar(archive_.get());
    if (archive_read_open_filename(archive_.get(), path_.c_str(), 1 << 20) != ARCHIVE_OK) {
      return Damaged(archive_error_string(archive_.get()));
    }
    archive_entry* entry = nullptr;
    while (true) {
      const int rc = archive_read_next_header(archive_.get(), &entry);
      if (rc == ARCHIVE_EOF) break;
      if (rc != ARCHIVE_OK) return Damaged(archive_error_string(archive_.get()));
      const char* name = archive_entry_pathname(entry);
      const std::string path = name == nullptr ? "" : name;
      if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry) != nullptr ||
          !IsSafePath(path)) {
        return Damaged(absl::StrCat("it holds '", path, "', which a backup never holds"));
      }
      const absl::Status status = path == kManifest ? ReadManifest() : Unpack(path);
      if (!status.ok()) return status;
    }
    if (manifest_.empty()) return Damaged("it ends before its MANIFEST");
    if (lines_ != manifest_) return Damaged("its files differ from its MANIFEST");
    return done_;
  }

 private:
  absl::Status Damaged(const char* what) {
    return Damaged(std::string(what == nullptr ? "" : what));
  }
  absl::Status Damaged(const std::string& what) {
    return absl::DataLossError(absl::StrCat(path_, " is not a complete backup: ", what));
  }

  // The next bytes of the entry; empty: its end.
  absl::StatusOr<absl::string_view> Piece() {
    buffer_.resize(1 << 20);
    const la_ssize_t n = archive_read_data(archive_.get(), buffer_.data(), buffer_.size());
    if (n < 0) return Damaged(archive_error_string(archive_.get()));
    return absl::string_view(buffer_.data(), static_cast<size_t>(n));
  }

  absl::Status ReadManifest() {
    std::string text;
    while (true) {
      const auto piece = Piece();
      if (!piece.ok()) return piece.status();
      if (piece->empty()) break;
      text.append(piece->data(), piece->size());
      if (static_cast<int64_t>(text.size()) > kMaxManifestBytes) return Damaged("MANIFEST");
    }
    const std::string first = absl::StrCat(kFirstLine, "\n");
    if (text.rfind(first, 0) != 0) return Damaged("its MANIFEST has another format");
    for (absl::string_view line : absl::StrSplit(text.substr(first.size()), '\n')) {
      if (!line.empty()) manifest_.insert(std::string(line));
    }
    return absl::OkStatus();
  }

  absl::Status Unpack(const std::string& path) {
    if (!manifest_.empty()) return Damaged("files follow its MANIFEST");
    if (heard_) heard_(path);
    const fs::path to = fs::path(folder_) / path;
    std::error_code code;
    fs::create_directories(to.parent_path(), code);
    const int fd = ::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return CannotWrite(to.string(), errno);
    Hash hash;
    absl::Status status;
    while (status.ok()) {
      const auto piece = Piece();
      if (!piece.ok()) status = piece.status();
      if (!piece.ok() || piece->empty()) break;
      hash.Add(*piece);
      for (absl::string_view rest = *piece; !rest.empty() && status.ok();) {
        const ssize_t n = ::write(fd, rest.data(), rest.size());
        if (n < 0 && errno != EINTR) status = CannotWrite(to.string(), errno);
        if (n > 0) rest.remove_prefix(static_cast<size_t>(n));
      }
    }
    if (status.ok() && ::fsync(fd) != 0) status = CannotWrite(to.string(), errno);
    ::close(fd);
    if (!status.ok()) return status;
    std::string line = LineOf(hash, path);
    line.pop_back();
    lines_.insert(std::move(line));
    ++done_.files;
    done_.bytes += hash.size();
    return absl::OkStatus();
  }

  const std::string path_, folder_;
  const std::function<void(const std::string&)>& heard_;
  std::unique_ptr<archive, int (*)(archive*)> archive_;
  std::vector<char> buffer_;
  std::set<std::string> manifest_, lines_;
  RestoredBackup done_;
};

absl::Status SyncFoldersIn(const std::string& root) {
  std::error_code code;
  bool synced = SyncThat(root);
  for (fs::recursive_directory_iterator entry(root, code), end; !code && entry != end;
       entry.increment(code)) {
    if (entry->is_directory()) synced = synced && SyncThat(entry->path().string());
  }
  if (synced && !code) return absl::OkStatus();
  return CannotWrite(root, code ? code.value() : errno);
}

}  // namespace

absl::StatusOr<std::unique_ptr<BackupWriter>> BackupWriter::Create(const std::string& path) {
  std::error_code code;
  if (fs::exists(path, code)) {
    return absl::AlreadyExistsError(
        absl::StrCat(path, " exists; give another file, or remove that one"));
  }
  auto writer = std::make_unique<Writer>(path, absl::StrCat(path, ".", ::getpid(), ".tmp"));
  if (absl::Status status = writer->Open(); !status.ok()) return status;
  return writer;
}

absl::StatusOr<RestoredBackup> RestoreBackup(
    const std::string& archive, const std::string& folder,
    const std::function<void(const std::string& path)>& on_file) {
  std::error_code code;
  if (!fs::exists(archive, code)) {
    return absl::NotFoundError(absl::StrCat("there is no file ", archive));
  }
  if (fs::is_directory(archive, code)) {
    return absl::FailedPreconditionError(
        absl::StrCat(archive, " is a folder; give the file that `baton backup` made"));
  }
  if (fs::exists(folder, code) && !fs::is_directory(folder, code)) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder, " is not a folder; give one that is empty or does not exist"));
  }
  if (fs::exists(folder, code) && !fs::is_empty(folder, code)) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder,
                     " is not empty; a backup becomes a data root of its own: give a "
                     "folder that is empty or does not exist"));
  }
  std::string target = fs::absolute(folder).lexically_normal().string();
  while (target.size() > 1 && target.back() == '/') target.pop_back();
  const std::string temporary = absl::StrCat(target, ".", ::getpid(), ".tmp");
  fs::create_directories(temporary, code);
  if (code) return CannotWrite(target, code.value());
  Reader reader(archive, temporary, on_file);
  auto done = reader.Run();
  if (!done.ok()) return done.status();
  if (absl::Status status = SyncFoldersIn(temporary); !status.ok()) return status;
  const bool kept = ::rename(temporary.c_str(), target.c_str()) == 0 &&  // over an empty folder too
                    SyncThat(FolderOf(target));
  if (!kept) return CannotWrite(target, errno);
  return done;
}

}  // namespace baton::cli
