// The default store: one SQLite file in WAL mode.
//
// A thread of its own writes. All commits that came while it was busy go into one transaction
// (group commit), so throughput grows with load, and a single commit is not delayed. A transaction
// with a commit of Durability::kPowerCut is synced once, for all commits that waited together.
#ifndef BATON_CONTROLLER_STORE_SQLITE_STORE_H_
#define BATON_CONTROLLER_STORE_SQLITE_STORE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "controller/store/store.h"

namespace baton::store {

struct SqliteOptions {
  enum class Sync {
    kAsked,  ///< Commits that ask for it (Durability::kPowerCut).
    kAll,    ///< All commits.
    kNone,   ///< No commit: a power cut may lose the last ones, never the file. For comparisons.
  };
  Sync sync = Sync::kAsked;
  /// Limit for a row; at most what SQLite itself takes.
  size_t max_row_bytes = kMaxRowBytes;
  /// Pause before a failed write is tried again.
  absl::Duration retry = absl::Milliseconds(200);
};

class SqliteStore : public Store {
 public:
  /// Opens or creates the file. FailedPrecondition: another controller has it open, or a newer
  /// program wrote it.
  static absl::StatusOr<std::unique_ptr<SqliteStore>> Open(const std::string& path,
                                                           const SqliteOptions& options = {});

  /// The schema version of the rows in the file; 0: any program may read them.
  virtual int schema_version() const = 0;
};

}  // namespace baton::store

#endif  // BATON_CONTROLLER_STORE_SQLITE_STORE_H_
