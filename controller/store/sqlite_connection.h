// A connection to one SQLite file, with its prepared statements. Not thread-safe.
#ifndef BATON_CONTROLLER_STORE_SQLITE_CONNECTION_H_
#define BATON_CONTROLLER_STORE_SQLITE_CONNECTION_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "controller/store/store.h"
#include "sqlite3.h"

namespace baton::store {

class SqliteConnection {
 public:
  static absl::StatusOr<std::unique_ptr<SqliteConnection>> Open(const std::string& path);
  ~SqliteConnection();

  /// Runs SQL without results.
  absl::Status Execute(const std::string& sql);
  /// Sets whether a COMMIT from here on returns only when it is on the disk (synchronous=FULL),
  /// with all commits before it. Not within a transaction.
  absl::Status SetSync(bool sync);
  /// Creates the table when it is not there.
  absl::Status EnsureTable(const std::string& table);
  absl::Status Apply(const Write& write);
  /// A table that does not exist has no rows.
  absl::StatusOr<std::optional<std::string>> Get(absl::string_view table, absl::string_view key);
  absl::StatusOr<std::vector<Row>> Scan(absl::string_view table, const ScanOptions& options);
  /// Copies all committed data, as of one moment, into a new database file.
  absl::Status CopyTo(const std::string& path);
  /// The statement's single integer.
  absl::StatusOr<int64_t> Integer(const std::string& sql);

 private:
  explicit SqliteConnection(sqlite3* db) : db_(db) {}
  absl::StatusOr<sqlite3_stmt*> Prepare(const std::string& sql);
  absl::StatusOr<bool> HasTable(const std::string& table);
  absl::Status Error(absl::string_view what) const;

  sqlite3* const db_;
  std::optional<bool> sync_;
  std::map<std::string, sqlite3_stmt*> statements_;
  std::map<std::string, bool> tables_;
};

}  // namespace baton::store

#endif  // BATON_CONTROLLER_STORE_SQLITE_CONNECTION_H_
