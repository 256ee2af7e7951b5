#include "controller/store/sqlite_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <set>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "controller/store/sqlite_connection.h"
#include "sdk/base/log.h"
#include "sdk/base/private_file.h"
#include "sdk/base/status_macros.h"

namespace baton::store {
namespace {

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
  SqliteStoreImpl(std::unique_ptr<FileLock> lock, std::unique_ptr<SqliteConnection> writer,
                  std::unique_ptr<SqliteConnection> reader, const SqliteOptions& options)
      : options_(options),
        lock_(std::move(lock)),
        writer_(std::move(writer)),
        reader_(std::move(reader)),
        thread_([this] { WriteLoop(); }) {}

  ~SqliteStoreImpl() override {
    {
      absl::MutexLock lock(&mu_);
      stopping_ = true;
    }
    thread_.join();
  }

  void Commit(std::vector<Write> writes, Done done) override {
    absl::MutexLock lock(&mu_);
    queue_.push_back({std::move(writes), std::move(done)});
  }

  absl::StatusOr<std::optional<std::string>> Get(absl::string_view table,
                                                 absl::string_view key) override {
    absl::MutexLock lock(&read_mu_);
    return reader_->Get(table, key);
  }

  absl::StatusOr<std::vector<Row>> Scan(absl::string_view table,
                                        const ScanOptions& options) override {
    absl::MutexLock lock(&read_mu_);
    return reader_->Scan(table, options);
  }

  absl::Status health() const override {
    absl::MutexLock lock(&mu_);
    return health_;
  }

 private:
  struct Group {
    std::vector<Write> writes;
    Done done;
  };

  absl::Status WriteGroups(const std::deque<Group>& groups) {
    std::set<std::string> tables;
    for (const Group& group : groups) {
      for (const Write& write : group.writes) tables.insert(write.table);
    }
    for (const std::string& table : tables) BATON_RETURN_IF_ERROR(writer_->EnsureTable(table));
    BATON_RETURN_IF_ERROR(writer_->Execute("BEGIN IMMEDIATE"));
    absl::Status status;
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
    return status;
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
        group.done(written ? absl::OkStatus() : absl::CancelledError("the store is closed"));
      }
    }
  }

  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return stopping_ || !queue_.empty(); }

  const SqliteOptions options_;
  const std::unique_ptr<FileLock> lock_;
  const std::unique_ptr<SqliteConnection> writer_;  // on thread_
  absl::Mutex read_mu_;
  const std::unique_ptr<SqliteConnection> reader_ ABSL_PT_GUARDED_BY(read_mu_);

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
  // It holds prompts and what tokens are known by. SQLite gives the files beside it the same mode.
  BATON_RETURN_IF_ERROR(MakePrivate(path));
  BATON_ASSIGN_OR_RETURN(auto writer, SqliteConnection::Open(path));
  BATON_RETURN_IF_ERROR(writer->Execute("PRAGMA journal_mode=WAL"));
  BATON_RETURN_IF_ERROR(writer->Execute(
      absl::StrCat("PRAGMA synchronous=", options.survive_power_cut ? "FULL" : "NORMAL")));
  BATON_ASSIGN_OR_RETURN(const int64_t version, writer->Integer("PRAGMA user_version"));
  if (version > kSchemaVersion) {
    return absl::FailedPreconditionError(absl::StrCat(path, " has schema version ", version,
                                                      "; this program knows ", kSchemaVersion,
                                                      ". Install the newer release again"));
  }
  BATON_RETURN_IF_ERROR(writer->Execute(absl::StrCat("PRAGMA user_version=", kSchemaVersion)));
  BATON_ASSIGN_OR_RETURN(auto reader, SqliteConnection::Open(path));
  return std::unique_ptr<SqliteStore>(
      new SqliteStoreImpl(std::move(lock), std::move(writer), std::move(reader), options));
}

}  // namespace baton::store
