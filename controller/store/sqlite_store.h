// The default store: one SQLite file in WAL mode.
//
// A thread of its own writes. Everything that was committed while it was busy goes into one
// transaction (group commit), so throughput grows with load and one commit alone is not delayed.
#ifndef BATON_CONTROLLER_STORE_SQLITE_STORE_H_
#define BATON_CONTROLLER_STORE_SQLITE_STORE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "controller/store/store.h"

namespace baton::store {

struct SqliteOptions {
  /// True: a commit survives a power cut (synchronous=FULL). False: it survives the death of
  /// the process; a power cut may lose the last commits, never the file.
  bool survive_power_cut = false;
  /// Pause before a failed write is tried again.
  absl::Duration retry = absl::Milliseconds(200);
};

class SqliteStore : public Store {
 public:
  /// The newest schema this program writes.
  static constexpr int kSchemaVersion = 4;

  /// Opens or creates the file. FailedPrecondition: another controller has it open, or a newer
  /// program wrote it.
  static absl::StatusOr<std::unique_ptr<SqliteStore>> Open(const std::string& path,
                                                           const SqliteOptions& options = {});
};

}  // namespace baton::store

#endif  // BATON_CONTROLLER_STORE_SQLITE_STORE_H_
