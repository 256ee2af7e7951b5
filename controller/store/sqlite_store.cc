#include "controller/store/sqlite_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <set>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "controller/store/reader_pool.h"
#include "controller/store/sqlite_connection.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/private_file.h"
#include "sdk/common/base/status_macros.h"

namespace baton::store {
namespace {

// The write-ahead log shrinks to this once what it holds is in the database.
constexpr int64_t kJournalLimitBytes = 64 << 20;
// Pages (4 KiB) that may be free. Beyond this number, pages in excess of an eighth of the file are
// given back to the file system, a few with each of the next transactions.
constexpr int64_t kFreePages = 4096;
constexpr int64_t kPagesAtATime = 256;
constexpr int kLookEvery = 64;  // transactions

// Makes the names beside `path` survive a power cut.
absl::Status SyncFolderOf(const std::string& path) {
  const std::string folder = std::filesystem::absolute(path).parent_path().string();
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return absl::FailedPreconditionError(absl::StrCat("cannot open ", folder));
  const int result = ::fsync(fd);
  ::close(fd);
  if (result == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("cannot sync ", folder));
}

// More than the threads that read, so that none of them waits for another one's connection.
constexpr size_t kReaders = 8;

// Held for as long as the process lives and has the store open.
class FileLock {
 public:
  static absl::StatusOr<std::unique_ptr<FileLock>> Take(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("cannot open ", path, ": ", std::strerror(errno), "; check the data root"));
    }
    auto lock = std::unique_ptr<FileLock>(new FileLock(fd));
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("another controller has this store open (", path,
                       " is locked); stop it, or give this one another --data-root"));
    }
    return lock;
  }
  ~FileLock() { ::close(fd_); }

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  const int fd_;
};

class SqliteStoreImpl : public SqliteStore {
 public:
  SqliteStoreImpl(const std::string& path, std::unique_ptr<FileLock> lock,
                  std::unique_ptr<SqliteConnection> writer, int schema,
                  const SqliteOptions& options)
      : path_(path),
        options_(options),
        schema_(schema),
        lock_(std::move(lock)),
        writer_(std::move(writer)),
        readers_(path, kReaders),
        thread_([this] { WriteLoop(); }) {}

  ~SqliteStoreImpl() override {
    {
      absl::MutexLock lock(&mu_);
      stopping_ = true;
    }
    thread_.join();
  }

  using Store::Commit;
  void Commit(std::vector<Write> writes, Durability durability, Done done) override {
    absl::Status refused = CheckRows(writes);
    if (!refused.ok()) writes.clear();
    absl::MutexLock lock(&mu_);
    queue_.push_back({std::move(writes), durability, std::move(done), std::move(refused)});
  }

  size_t max_row_bytes() const override { return options_.max_row_bytes; }

  absl::StatusOr<std::optional<std::string>> Get(absl::string_view table,
                                                 absl::string_view key) override {
    return readers_.With([&](SqliteConnection& reader) { return reader.Get(table, key); });
  }

  absl::StatusOr<std::vector<Row>> Scan(absl::string_view table,
                                        const ScanOptions& options) override {
    return readers_.With([&](SqliteConnection& reader) { return reader.Scan(table, options); });
  }

  absl::Status health() const override {
    absl::MutexLock lock(&mu_);
    return health_;
  }

  int schema_version() const override { return schema_; }

  absl::Status CopyTo(const std::string& path) override {
    // The copy has a connection of its own, so readers go on.
    BATON_ASSIGN_OR_RETURN(const auto reader, SqliteConnection::Open(path_));
    return reader->CopyTo(path);
  }

 private:
  struct Group {
    std::vector<Write> writes;
    Durability durability;
    Done done;
    absl::Status refused;  ///< Nothing is written; answered in its turn.
  };

  absl::Status WriteGroups(const std::deque<Group>& groups) {
    std::set<std::string> tables;
    int schema = schema_;
    bool sync = options_.sync == SqliteOptions::Sync::kAll;
    for (const Group& group : groups) {
      for (const Write& write : group.writes) {
        tables.insert(write.table);
        schema = std::max(schema, write.schema);
      }
      sync = sync || (group.durability == Durability::kPowerCut &&
                      options_.sync == SqliteOptions::Sync::kAsked);
    }
    BATON_RETURN_IF_ERROR(writer_->SetSync(sync));
    for (const std::string& table : tables) BATON_RETURN_IF_ERROR(writer_->EnsureTable(table));
    BATON_RETURN_IF_ERROR(writer_->Execute("BEGIN IMMEDIATE"));
    absl::Status status;
    if (schema > schema_) {  // in the transaction of the rows that need it
      status = writer_->Execute(absl::StrCat("PRAGMA user_version=", schema));
    }
    for (const Group& group : groups) {
      for (const Write& write : group.writes) {
        if (status.ok()) status = writer_->Apply(write);
      }
    }
    if (status.ok()) status = writer_->Execute("COMMIT");
    if (!status.ok()) {
      // SQLite may have rolled back by itself already.
      const absl::Status ignored = writer_->Execute("ROLLBACK");
      (void)ignored;
    }
    if (status.ok()) schema_ = schema;
    return status;
  }

  // Rows that were deleted leave free pages; a file with many gives some back. No commit waits for
  // more than a few of them.
  void GiveBackPages() {
    if (free_pages_ == 0 && ++transactions_ % kLookEvery != 0) return;
    const auto unused = writer_->Integer("PRAGMA freelist_count");
    const auto pages = writer_->Integer("PRAGMA page_count");
    free_pages_ = 0;
    if (!unused.ok() || !pages.ok()) return;
    if (*unused <= std::max(kFreePages, *pages / 8)) return;
    free_pages_ = *unused;
    const absl::Status status =
        writer_->Execute(absl::StrCat("PRAGMA incremental_vacuum(", kPagesAtATime, ")"));
    if (!status.ok()) {
      Log(LogLevel::kWarn, "free pages of the store are not given back",
          {{"error", std::string(status.message())}});
    }
  }

  // True when the groups are written; false when the store stops before that.
  bool WriteUntilDone(const std::deque<Group>& groups) {
    for (bool failed = false;; failed = true) {
      const absl::Status status = WriteGroups(groups);
      absl::MutexLock lock(&mu_);
      if (status.ok() && failed) Log(LogLevel::kInfo, "the store accepts writes again");
      if (!status.ok() && !failed) {
        Log(LogLevel::kError, "the store refuses writes; they are tried again",
            {{"error", std::string(status.message())}});
      }
      health_ = status;
      if (status.ok()) return true;
      if (stopping_) return false;
      mu_.AwaitWithTimeout(absl::Condition(&stopping_), options_.retry);
    }
  }

  void WriteLoop() {
    // Once a commit was given up at shutdown, no later one may overtake it.
    bool abandoned = false;
    while (true) {
      std::deque<Group> groups;
      {
        absl::MutexLock lock(&mu_);
        mu_.Await(absl::Condition(this, &SqliteStoreImpl::HasWork));
        if (queue_.empty()) return;
        groups.swap(queue_);
      }
      const bool written = !abandoned && WriteUntilDone(groups);
      abandoned = !written;
      for (const Group& group : groups) {
        group.done(written ? group.refused : absl::CancelledError("the store is closed"));
      }
      if (written) GiveBackPages();
    }
  }

  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return stopping_ || !queue_.empty(); }

  const std::string path_;
  const SqliteOptions options_;
  std::atomic<int> schema_;  // written on thread_
  const std::unique_ptr<FileLock> lock_;
  const std::unique_ptr<SqliteConnection> writer_;  // on thread_
  int64_t free_pages_ = 0;                          // on thread_; 0: not more than there may be
  int64_t transactions_ = 0;                        // on thread_
  ReaderPool readers_;

  mutable absl::Mutex mu_;
  std::deque<Group> queue_ ABSL_GUARDED_BY(mu_);
  absl::Status health_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;

  std::thread thread_;  // last: everything else is there when it starts
};

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::Open(const std::string& path,
                                                               const SqliteOptions& options) {
  BATON_ASSIGN_OR_RETURN(auto lock, FileLock::Take(path + ".lock"));
  // The file holds prompts and hashes of bearer tokens. SQLite gives the files beside it the same
  // mode.
  BATON_RETURN_IF_ERROR(MakePrivate(path));
  BATON_ASSIGN_OR_RETURN(auto writer, SqliteConnection::Open(path));
  // Takes effect only for a new file; an existing file stays as it is.
  BATON_RETURN_IF_ERROR(writer->Execute("PRAGMA auto_vacuum=INCREMENTAL"));
  BATON_RETURN_IF_ERROR(writer->Execute("PRAGMA journal_mode=WAL"));
  BATON_RETURN_IF_ERROR(
      writer->Execute(absl::StrCat("PRAGMA journal_size_limit=", kJournalLimitBytes)));
  BATON_RETURN_IF_ERROR(writer->SetSync(false));
  BATON_ASSIGN_OR_RETURN(const int64_t version, writer->Integer("PRAGMA user_version"));
  if (version > kSchemaVersion) {
    return absl::FailedPreconditionError(absl::StrCat(path, " has schema version ", version,
                                                      "; this program knows ", kSchemaVersion,
                                                      ". Install the newer release again"));
  }
  BATON_RETURN_IF_ERROR(SyncFolderOf(path));  // the file's own name; SQLite syncs its journal's
  return std::unique_ptr<SqliteStore>(new SqliteStoreImpl(path, std::move(lock), std::move(writer),
                                                          static_cast<int>(version), options));
}

}  // namespace baton::store
