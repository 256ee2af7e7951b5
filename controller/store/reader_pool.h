// Pool of connections that read one SQLite file, each for one thread at a time.
//
// In WAL mode readers wait neither for the writer nor for each other, but a connection serves one
// thread: with one for all, a long scan would hold up every other read. Thread-safe.
#ifndef BATON_CONTROLLER_STORE_READER_POOL_H_
#define BATON_CONTROLLER_STORE_READER_POOL_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "controller/store/sqlite_connection.h"

namespace baton::store {

class ReaderPool {
 public:
  /// Opens connections to `path` when they are needed, at most `most`.
  ReaderPool(std::string path, size_t most) : path_(std::move(path)), most_(most) {}

  /// Runs `read` on a connection that no other thread uses meanwhile; waits for one when all are in
  /// use. `read` returns a StatusOr.
  template <typename Read>
  auto With(Read read) -> decltype(read(std::declval<SqliteConnection&>())) {
    absl::StatusOr<std::unique_ptr<SqliteConnection>> connection = Take();
    if (!connection.ok()) return connection.status();
    auto answer = read(**connection);
    absl::MutexLock lock(&mu_);
    free_.push_back(*std::move(connection));
    return answer;
  }

 private:
  absl::StatusOr<std::unique_ptr<SqliteConnection>> Take() {
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(this, &ReaderPool::MayTake));
    if (!free_.empty()) {
      std::unique_ptr<SqliteConnection> connection = std::move(free_.back());
      free_.pop_back();
      return connection;
    }
    auto opened = SqliteConnection::Open(path_);
    if (opened.ok()) ++open_;
    return opened;
  }
  bool MayTake() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return !free_.empty() || open_ < most_;
  }

  const std::string path_;
  const size_t most_;
  absl::Mutex mu_;
  size_t open_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<std::unique_ptr<SqliteConnection>> free_ ABSL_GUARDED_BY(mu_);
};

}  // namespace baton::store

#endif  // BATON_CONTROLLER_STORE_READER_POOL_H_
